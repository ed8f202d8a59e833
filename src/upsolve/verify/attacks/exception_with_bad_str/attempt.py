class Odd(Exception):
    def __str__(self):
        raise MemoryError
def f(n):
    raise Odd
