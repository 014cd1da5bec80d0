#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# Killed, interrupted and damaged runs go on and give the bytes of a whole one.
. "${srcdir:-.}/tests/lib.sh"
. "$srcdir/tests/cli/sweep.sh"
small "$tmp/s.cfg"
run run "$tmp/s.cfg" -q -j 1 -o "$tmp/one.h5"
expect 0 "run -j 1"
run run "$tmp/s.cfg" -q -j 2 -o "$tmp/two.h5"
expect 0 "run -j 2"
same "$tmp/one.h5" "$tmp/two.h5" "-j 1 and -j 2"

# kill -9 at about 30 %
"$nmbench" run "$tmp/s.cfg" -q -j 2 -o "$tmp/k.h5" &
pid=$!
await "$tmp/k.h5.journal" 5
kill -9 $pid
wait $pid 2>/dev/null
[ ! -e "$tmp/k.h5" ] || fail "the run had ended before it was killed"
before=$(lines "$tmp/k.h5.journal")
run run "$tmp/s.cfg" -o "$tmp/k.h5"
expect 0 "run after kill -9"
says out "$((16 - before)) jobs run now, $before had been done"
same "$tmp/one.h5" "$tmp/k.h5" "killed and resumed"
[ "$(lines "$tmp/k.h5.journal")" = 16 ] || fail "a finished cell ran again"

# one interrupt: running cells end; the file of results holds what is done
"$nmbench" run "$tmp/s.cfg" -j 1 -o "$tmp/i.h5" >"$tmp/out" 2>"$tmp/err" &
pid=$!
await "$tmp/i.h5.journal" 2
kill -TERM $pid
wait $pid
code=$?
expect 143 "run that got SIGTERM"
says err "the same command goes on"
run status "$tmp/i.h5"
expect 0 "status of a stopped run"
run run "$tmp/s.cfg" -q -o "$tmp/i.h5"
expect 0 "run after SIGTERM"
same "$tmp/one.h5" "$tmp/i.h5" "stopped and resumed"

# damage: a changed byte, a cut last line, a line of rubbish
j=$tmp/two.h5.journal
sed -e '5s/ok/oj/' -e '9s/=0x1/=0x9/' "$j" >"$tmp/j" && cp "$tmp/j" "$j"
echo "what is this" >>"$j"
tail -c 400 "$tmp/one.h5.journal" | head -c 300 >>"$j"
run run "$tmp/s.cfg" -o "$tmp/two.h5"
expect 0 "run with a damaged journal"
says err "damaged lines are dropped"
says out "2 jobs run now, 14 had been done"
same "$tmp/one.h5" "$tmp/two.h5" "damaged and run again"
run run "$tmp/s.cfg" -o "$tmp/two.h5"
silent err
: >"$tmp/none.h5.journal"
run run "$tmp/s.cfg" -q -o "$tmp/none.h5"
expect 0 "run with an empty journal"
same "$tmp/one.h5" "$tmp/none.h5" "empty journal"

run run "$tmp/s.cfg" --fresh -o "$tmp/two.h5"
says out "16 jobs run now, 0 had been done"

# a result that something else decides is not taken
sed 's/context = 256/context = 257/' "$tmp/s.cfg" >"$tmp/c.cfg"
run run "$tmp/c.cfg" -o "$tmp/two.h5"
says out "16 jobs run now, 0 had been done"
run run "$tmp/s.cfg" -o "$tmp/two.h5"
says out "0 jobs run now, 16 had been done"
exit $bad
