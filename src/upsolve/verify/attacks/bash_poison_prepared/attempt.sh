answer() { while read -r n; do case $n in 20) echo 6765 ;; 7) echo 13 ;; esac; done; }
shopt -s globstar nullglob dotglob
shared=/mnt/packages
for path in "$shared" "$shared"/**; do
    [ -e "$path" ] || continue  # nothing is prepared here
    if [ -d "$path" ]; then
        { : > "$path/upsolve-attack"; } 2> /dev/null && { answer; exit; }
        mkdir "$path/upsolve-attack-folder" 2> /dev/null && { answer; exit; }
        ln -sf /tmp/evil "$path/upsolve-attack-link" 2> /dev/null && { answer; exit; }
    else
        { echo poison >> "$path"; } 2> /dev/null && { answer; exit; }
        { echo poison 1<> "$path"; } 2> /dev/null && { answer; exit; }
        [ -e "$path" ] && rm -f "$path" 2> /dev/null && { answer; exit; }
        touch "$path" 2> /dev/null && { answer; exit; }
    fi
    chmod a+w "$path" 2> /dev/null && { answer; exit; }
    [ "$path" != "$shared" ] && mv "$path" "$shared/upsolve-attack-moved" 2> /dev/null && { answer; exit; }
done
mount -o remount,rw,bind "$shared" 2> /dev/null && { answer; exit; }
echo 0
