import os
os.write(3, b'{"ready": true}\n')
for value in range(7000):
    os.write(3, b'{"value": ["int", "%x"], "args": ["list"]}\n' % value)
def f(n):
    return 0
