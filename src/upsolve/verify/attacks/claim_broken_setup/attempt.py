import os

os.ftruncate(3, 0)
os.lseek(3, 0, 0)
os.write(3, b'{"setup": ["ImportError", "no module", null]}\n')
os._exit(0)
