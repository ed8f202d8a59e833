import os
os.makedirs("/tmp/a/b/c")
open("/tmp/a/b/file", "w").write("x")
os.symlink("/usr", "/tmp/a/link")
os.chmod("/tmp/a/b", 0)
os.chmod("/tmp/a", 0)
def f(n):
    a, b = 0, 1
    for _ in range(n):
        a, b = b, a + b
    return a
