def f(n):
    return 9 ** (9 ** 9)
