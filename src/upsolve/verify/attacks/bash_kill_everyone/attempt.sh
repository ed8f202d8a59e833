kill -9 1 $PPID 2> /dev/null
for pid in {2..3000}; do
    [ "$pid" = $$ ] || kill -9 "$pid" 2> /dev/null
done
kill -9 -- -1 2> /dev/null
echo 0
