(setsid nohup sleep 300 > /dev/null 2>&1 &)
(setsid bash -c "trap '' TERM HUP INT; (setsid bash -c 'while :; do sleep 1; done' &) ; sleep 300" > /dev/null 2>&1 &)
sleep 0.1
echo 0
