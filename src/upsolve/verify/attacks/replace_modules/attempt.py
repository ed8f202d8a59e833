import sys
for name in list(sys.modules):
    if name not in ('builtins', 'sys'):
        sys.modules[name] = None
def f(n):
    return 0
