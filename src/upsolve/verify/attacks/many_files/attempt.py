def f(n):
    for i in range(10 ** 6):
        open(f'/tmp/upsolve-attack-{i}', 'w').close()
