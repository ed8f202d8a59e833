import os
os.write(3, b'\xff\xfe[[[[not json\n[1]\n' * 100)
def f(n):
    return 0
