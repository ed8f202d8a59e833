import sys
def f(n):
    while True:
        sys.stderr.write('x' * 100000)
