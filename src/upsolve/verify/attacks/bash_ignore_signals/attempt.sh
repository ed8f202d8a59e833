trap '' TERM INT HUP QUIT ALRM XCPU USR1 USR2 PIPE
while :; do :; done
