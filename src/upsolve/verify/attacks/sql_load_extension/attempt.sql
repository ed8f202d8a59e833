SELECT i, load_extension('/usr/lib/x86_64-linux-gnu/libc.so.6', 'system') FROM given
