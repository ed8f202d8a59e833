import os

os.write(3, b'{"compile": 5}\n{"test": 0, "error": 7}\n{"test": 1, "value": {"a": [1]}}\n{"test": [], "value": 1}\n')


def f(n):
    return 0
