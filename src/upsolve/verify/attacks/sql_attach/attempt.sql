ATTACH DATABASE '/tmp/upsolve-attack.db' AS other
