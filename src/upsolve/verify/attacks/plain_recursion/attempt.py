def f(n):
    return f(n + 1)
