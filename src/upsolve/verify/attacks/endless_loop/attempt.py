def f(n):
    while True:
        pass
