def f(n):
    return bytearray(100 << 30)
