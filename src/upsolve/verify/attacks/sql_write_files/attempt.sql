SELECT writefile('/tmp/upsolve-attack', 'x'), edit('x', 'touch /tmp/upsolve-attack')
