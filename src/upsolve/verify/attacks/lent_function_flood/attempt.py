def f(n, give):
    while True:
        give("x" * (1 << 20))
