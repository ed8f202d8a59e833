exec yes upsolve-attack
