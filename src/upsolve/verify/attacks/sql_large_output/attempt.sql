SELECT i, hex(zeroblob(10000000)) FROM given
