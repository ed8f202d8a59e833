SELECT i, hex(zeroblob(200000)) LIKE replace(hex(zeroblob(2000)), '0', '%0%_') FROM given
