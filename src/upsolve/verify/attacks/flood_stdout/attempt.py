def f(n):
    while True:
        print('x' * 100000)
