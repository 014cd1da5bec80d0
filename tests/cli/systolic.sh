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
exit $bad
