#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# Outputs that cannot be written lose nothing, and two runs exclude each other.
. "${srcdir:-.}/tests/lib.sh"
. "$srcdir/tests/cli/sweep.sh"
small "$tmp/s.cfg"

: >"$tmp/file"
run run "$tmp/s.cfg" -o "$tmp/file/x.h5"
expect 2 "an output below a file"
says err "cannot"
[ "$(wc -l <"$tmp/err")" = 1 ] || fail "more than one message: $(cat "$tmp/err")"
if [ "$(id -u)" != 0 ]; then
  mkdir "$tmp/ro"
  chmod 555 "$tmp/ro"
  run run "$tmp/s.cfg" -o "$tmp/ro/x.h5"
  expect 2 "an output folder that is read-only"
  says err "Permission denied"
fi

# a limit on the size of files stands for a full disk
(
  ulimit -f 16 # half-KiB blocks in some shells, KiB in others
  "$nmbench" run "$tmp/s.cfg" -j 1 -o "$tmp/full.h5" >"$tmp/out" 2>"$tmp/err"
)
code=$?
expect 6 "a full disk"
says err "cannot write $tmp/full.h5"
says err "what was done is kept"
[ ! -e "$tmp/full.h5" ] || fail "a file of results was left behind"
before=$(lines "$tmp/full.h5.journal")
[ "$before" -gt 0 ] || fail "nothing was kept"
run run "$tmp/s.cfg" -o "$tmp/full.h5"
expect 0 "run after the disk was full"
silent err
says out "$((16 - before)) jobs run now, $before had been done"

# two at once
"$nmbench" run "$tmp/s.cfg" -q -j 1 -o "$tmp/two.h5" &
pid=$!
await "$tmp/two.h5.journal" 1
run run "$tmp/s.cfg" -o "$tmp/two.h5"
expect 2 "a second run into one file"
says err "another nmbench is running"
wait $pid || fail "the first run failed"

# files that are none of ours
head -c 3000 "$tmp/two.h5" >"$tmp/cut.h5"
run status "$tmp/cut.h5"
expect 2 "a file that is cut"
run export "$tmp/s.cfg" --csv
expect 2 "a file that is no HDF5"
says err "not an HDF5 file"
run compare "$tmp/two.h5" "$tmp/nowhere.h5"
expect 2 "a file that is not there"

# an output or input that is no ordinary file is neither replaced nor waited for
mkfifo "$tmp/pipe.h5"
run run "$tmp/s.cfg" -q -o "$tmp/pipe.h5"
expect 2 "results into a pipe"
says err "expected an ordinary file"
[ -p "$tmp/pipe.h5" ] || fail "the pipe was replaced"
timeout 20 "$nmbench" status "$tmp/pipe.h5" >"$tmp/out" 2>"$tmp/err"
code=$?
expect 2 "results from a pipe"
exit $bad
