for (1 .. 30) {
    next if fork;
    my @held = map { "x" x (1 << 24) } 1 .. 12;
    sleep 1;
    exit;
}
1 while wait > 0;
print "0\n";
