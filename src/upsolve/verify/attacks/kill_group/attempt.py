import os, signal
def f(n):
    os.killpg(0, signal.SIGKILL)
