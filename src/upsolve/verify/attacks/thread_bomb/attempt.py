import threading, time
def f(n):
    while True:
        threading.Thread(target=time.sleep, args=(100,)).start()
