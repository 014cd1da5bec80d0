#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# plan, run, status, log, export and compare on a small sweep.
. "${srcdir:-.}/tests/lib.sh"
. "$srcdir/tests/cli/sweep.sh"
small "$tmp/s.cfg"
h5=$tmp/deep/er/s.h5

run plan "$tmp/s.cfg" -o "$h5"
expect 0 plan
says out "cells: 24"
# with two slots, adding one is leaving out the other: 4 pipelines of 6 differ
says out "jobs: 16; 8 cells share the result of another"
says out "done: 0; left: 16"
[ ! -e "$h5.journal" ] || fail "plan wrote a journal"
run plan "$tmp/s.cfg" --json
expect 0 "plan --json"
says out '"left": 16'
run plan "$tmp/s.cfg" --cells --only 'pipeline=+*|base,seed=2'
[ "$(wc -l <"$tmp/out")" = 6 ] || fail "plan --cells --only gives $(wc -l <"$tmp/out") lines, not 6"

run run "$tmp/s.cfg" -o "$h5" --timeout 0
expect 2 "--timeout 0"
run run "$tmp/s.cfg" -o "$h5" --memory 0
expect 2 "--memory 0"
run run "$tmp/s.cfg" -o "$h5" -j 2 --only pipeline=base --timeout 60
expect 0 "run of the baseline"
says out "4 cells, 4 ok"
run run "$tmp/s.cfg" -o "$h5" -j 2
expect 0 "run of the rest"
says out "24 cells, 24 ok"
says out "12 jobs run now, 4 had been done"
run run "$tmp/s.cfg" -o "$h5"
says out "0 jobs run now, 16 had been done"
# a filter chooses what runs; the file keeps what is there
run run "$tmp/s.cfg" -o "$h5" --only seed=1
says out "12 cells, 12 ok"
[ "$(table "$h5" | wc -l)" = 25 ] || fail "a filtered run dropped rows"
run plan "$tmp/s.cfg" -o "$h5"
says out "left: 0"

run status "$h5"
expect 0 status
says out "24, 24 ok"
says out "16 jobs of"
run status --json "$h5"
says out '"damaged": 0'
run log "$h5" 3
expect 0 log
says out "pipeline"
says out "latency"
says out "compile_time_by_pass"
run log "$h5" 24
expect 2 "log of a cell that is not there"
says err "expected 0..23"
run export "$h5" --csv -o "$tmp/x.csv"
expect 0 "export --csv"
[ "$(wc -l <"$tmp/x.csv")" = 25 ] || fail "export has $(wc -l <"$tmp/x.csv") lines, not 25"
run export "$h5" --json
expect 0 "export --json"
says out '"unit": "s"'
run export "$h5"
expect 2 "export without a format"

run compare "$h5" "$h5"
expect 0 "compare with itself"
says out "24 cells compared, 0 values moved"
run run "$tmp/s.cfg" -q -o "$tmp/part.h5" --only seed=1
silent out
run compare "$h5" "$tmp/part.h5"
expect 4 "compare with cells missing"
says out "12 cells missing in the second file"
run compare "$tmp/part.h5" "$h5"
expect 0 "compare with cells added"
# the same labels, another memory planner: peak_bytes moves
sed 's/mem-firstfit/mem-bestfit{}/; s/mem-bump/mem-greedy-size/' "$tmp/s.cfg" >"$tmp/t.cfg"
run run "$tmp/t.cfg" -q -o "$tmp/t.h5"
expect 0 "run with other planners"
run compare "$h5" "$tmp/t.h5"
expect 1 "compare with values moved"
says out "peak_bytes_by_memory[hbm]"
says out "better"
run compare "$h5" "$tmp/t.h5" --json
expect 1 "compare --json"
says out '"verdict": "better"'
run compare "$h5" "$tmp/t.h5" --tolerance 1
expect 0 "compare with a wide tolerance"

# an ablation changes only the slot it says
run plan "$tmp/s.cfg" --json
grep -q '"ablation": "leave"' "$tmp/out" || fail "no cell is labelled leave"
exit $bad
