VACUUM INTO '/tmp/upsolve-attack.db'
