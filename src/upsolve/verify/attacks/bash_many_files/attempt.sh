for number in {1..200000}; do
    { : > "upsolve-attack-$number"; } 2> /dev/null || break
done
echo 0
