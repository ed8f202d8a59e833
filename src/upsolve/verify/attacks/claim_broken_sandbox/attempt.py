import os

os.write(3, b'{"broken": "cannot confine: no reason"}\n')
os._exit(70)
