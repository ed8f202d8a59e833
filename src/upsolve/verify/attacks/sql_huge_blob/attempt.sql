SELECT hex(zeroblob(900000000)), 1
