import re
def f(n):
    return re.match('(a+)+$', 'a' * 60 + 'b')
