def f(n):
    return sum(1 for _ in iter(int, 1))
