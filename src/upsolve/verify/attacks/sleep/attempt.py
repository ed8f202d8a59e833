import time
def f(n):
    time.sleep(1000)
