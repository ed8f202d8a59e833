print(6765)
