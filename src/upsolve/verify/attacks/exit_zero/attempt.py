import sys
def f(n):
    sys.exit(0)
