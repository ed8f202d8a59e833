import os
def f(n):
    try:
        for _ in range(5000):
            os.mkdir("d")
            os.chdir("d")
    except OSError:
        pass
    return 0
