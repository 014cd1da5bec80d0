#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# nmbench systolic: SCALE-Sim's cycles, exactly, and plain refusals.
. "${srcdir:-.}/tests/lib.sh"

while IFS=, read -r r c flow m n k cycles; do
  case $r in \#*) continue ;; esac
  run systolic --rows "$r" --cols "$c" --dataflow "$flow" -m "$m" -n "$n" -k "$k" --json
  expect 0 "systolic $r $c $flow $m $n $k"
  says out "\"cycles\": $cycles,"
  says out "\"stepped_cycles\": $cycles"
done <"$srcdir/tests/data/systolic.csv"

run systolic --rows 32 --cols 32 --dataflow ws -m 100 -n 200 -k 300
says out "0.372024" # SCALE-Sim's compute utilisation, 37.2024 %
says out "0.837054" # and mapping efficiency, 83.7054 %
says out "0.431503" # and overall utilisation, 43.1503 %

run systolic -m 4 -n 4 --json
expect 2 "no k"
says err "found no -k"
run systolic -m 0 -n 4 -k 4
expect 2 "m = 0"
says err "option --m: found 0"
run systolic -m 4 -n 4 -k 4 --dataflow rs
expect 2 "unknown dataflow"
run systolic --rows 65536 --cols 65536 -m 4 -n 4 -k 4
expect 0 "too large to step"
says out "not stepped"
# counts beyond 64 bits stay numbers
run systolic --rows 1 --cols 1 -m 16777216 -n 16777216 -k 16777216 --json
expect 0 "a huge product"
says out '"cycles": 4.7223667643'
# collectives: every way, odd numbers of devices; both forms must agree or it fails
for a in ring tree switch multicast link; do
  for d in 1 2 3 7; do
    run collective "all-reduce bytes=1000001 devices=$d" -M gpu-a100-x4 --algorithm $a --json
    expect 0 "all-reduce, $a, $d devices"
  done
done
run collective 'broadcast bytes=1000001 devices=7' -M gpu-a100-x4 --algorithm multicast --json
once=$(sed -n 's/^ *"time": \([^,]*\),*$/\1/p' "$tmp/out")
run collective 'broadcast bytes=1000001 devices=7' -M gpu-a100-x4 --algorithm tree --json
tree=$(sed -n 's/^ *"time": \([^,]*\),*$/\1/p' "$tmp/out")
awk -v a="$once" -v b="$tree" 'BEGIN {exit !(b > 2.99 * a && b < 3.01 * a)}' ||
  fail "a tree of 7 takes 3 rounds: $tree s against $once s of a multicast"
run collective 'all-gather bytes=64 devices=3' -M gpu-a100-x4 --algorithm tree
expect 1 "all-gather on a tree"
exit $bad
