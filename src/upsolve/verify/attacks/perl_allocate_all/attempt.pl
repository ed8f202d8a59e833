my @held;
push @held, "x" x (1 << 26) while 1;
