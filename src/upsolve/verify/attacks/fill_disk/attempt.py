def f(n):
    with open('/tmp/upsolve-attack-big', 'wb') as out:
        while True:
            out.write(b'x' * (1 << 20))
