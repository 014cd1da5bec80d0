#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# nmbench dram: facts of its JSON, stamps, messages; rows of the public microbenchmark
# files where those are beside the source.
. "${srcdir:-.}/tests/lib.sh"

# fact KEY VALUE: of the last JSON
fact()
{
  grep -q "\"$1\": $2,\{0,1\}\$" "$tmp/out" || { fail "$1: expected $2"; grep "\"$1\"" "$tmp/out"; }
}

run dram --kind DDR4_3200AA --workload seq_bgi --n 1000 --policy open --refresh none --json
expect 0 "seq_bgi"
fact cycles 4019
fact first_column 23
fact tx_bytes 64
fact tick_ps 625.0
fact RD 1000
run dram --kind HBM3_6400 --workload rw_mix --n 1000 --json
fact cycles 3153
fact WR 506
run dram --kind DDR4_3200AA --workload same_bank -n 3 --stamps
expect 0 "stamps"
grep -Eq '^ *97  RD +0:0:0:0:1$' "$tmp/out" || { fail "the second read"; cat "$tmp/out"; }
run dram --kind DDR4_3200AA --workload random -n 2000 --queue inorder --json
inorder=$(sed -n 's/^ *"cycles": \([0-9]*\),*$/\1/p' "$tmp/out")
run dram --kind DDR4_3200AA --workload random -n 2000 --json
frfcfs=$(sed -n 's/^ *"cycles": \([0-9]*\),*$/\1/p' "$tmp/out")
[ "$inorder" -gt "$frfcfs" ] || fail "in order $inorder, first ready $frfcfs"
run dram
expect 0 "the list"
says out 'LPDDR5_6400'
run dram --kind DDR4_3200AAA
expect 2 "an unknown kind"
says err "did you mean 'DDR4_3200AA'"
run dram --kind DDR4_3200AA --set nRCDD=20
says err "did you mean 'nRCD'"
run dram --kind DDR4_3200AA --refresh perbank
says err 'no per-bank refresh'
run dram --kind LPDDR5_6400 --refresh perbank -n 2000 --json
expect 0 "per-bank refresh"
says out '"REFpb"'

rows=$srcdir/../shared/validation/dram_microbench.csv
if [ -f "$rows" ]; then
  # every sixth: the ledger has them all
  awk -F, 'NR > 1 && NR % 6 == 2 && $12 {print $1, $2, $3, $4, $12}' "$rows" >"$tmp/rows"
  while read -r kind workload policy refresh cycles; do
    run dram --kind "$kind" --workload "$workload" --policy "$policy" --refresh "$refresh" \
      --n 1000 --json
    fact cycles "$cycles"
  done <"$tmp/rows"
fi
exit $bad
