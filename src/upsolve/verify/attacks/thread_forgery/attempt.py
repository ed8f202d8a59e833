import threading, time
def late():
    time.sleep(0.2)
threading.Thread(target=late).start()
def f(n):
    return 0
