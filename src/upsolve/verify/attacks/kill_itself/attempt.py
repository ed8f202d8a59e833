import os, signal
def f(n):
    os.kill(os.getpid(), signal.SIGKILL)
