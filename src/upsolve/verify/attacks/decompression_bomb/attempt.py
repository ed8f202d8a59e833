import zlib
def f(n):
    bomb = zlib.compress(bytes(1 << 20), 9)
    return len(zlib.decompress(zlib.compress(bytes(200 << 20), 1)) * 50)
