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

# traces: the same requests in every form; seq_row is flat
i=0
while [ $i -lt 300 ]; do echo "LD $((i * 64))"; i=$((i + 1)); done >"$tmp/flat.trace"
run dram --kind DDR4_3200AA --workload seq_row -n 40 --json
flat=$(sed -n 's/^ *"cycles": \([0-9]*\),*$/\1/p' "$tmp/out")
run dram --kind DDR4_3200AA --trace "$tmp/flat.trace" -n 40 --json
expect 0 "the start of a trace" # both go on for longer than the queue holds
fact cycles "$flat"
run dram --kind DDR4_3200AA --trace "$tmp/flat.trace" --json
expect 0 "a trace"
[ "$flat" -lt "$(sed -n 's/^ *"cycles": \([0-9]*\),*$/\1/p' "$tmp/out")" ] ||
  fail "a whole trace ends before its start"
fact requests 300
fact RD 300
printf 'LD 0x0 # first\n\nST 0x40\n' >"$tmp/a.trace"
printf 'R 0,0,0,0,0,0\nW 0,0,0,0,0,1\n' >"$tmp/b.trace"
printf '0x0 R\r\n64 W\r\n' >"$tmp/c.trace"
for f in a b c; do
  run dram --kind DDR4_3200AA --trace "$tmp/$f.trace" --stamps
  expect 0 "trace $f"
  grep -E '^ *[0-9]+  ' "$tmp/out" >"$tmp/$f.stamps"
  grep -Eq ' WR +0:0:0:0:0$' "$tmp/$f.stamps" || fail "trace $f: no write"
  cmp "$tmp/a.stamps" "$tmp/$f.stamps" || fail "trace $f differs"
done
# sim reads them, too
run dram --kind HBM3_6400 --trace "$tmp/a.trace" --refresh allbank --json
cp "$tmp/out" "$tmp/by-dram"
run sim "$tmp/a.trace" --kind HBM3_6400 --refresh allbank --json
expect 0 "sim of loads and stores"
cmp -s "$tmp/out" "$tmp/by-dram" || fail "sim and dram differ on a trace"
for f in a b c; do
  run sim "$tmp/$f.trace"
  expect 2 "sim of trace $f without a kind"
  says err "give the kind of DRAM with --kind"
done
bad()
{
  printf 'LD 0x40\n%s\n' "$1" >"$tmp/bad.trace"
  run dram --kind DDR4_3200AA --trace "$tmp/bad.trace"
  expect 2 "trace: $1"
  says err "bad.trace:2"
  says err "$2"
}
bad 'LX 0x40' "found 'LX'"
bad 'LD' "and 0 more words"
bad 'LD -1' 'expected an address'
bad 'LD 0xg' 'expected an address'
bad 'LD 0x10000000000000000' 'over 64 bits'
bad 'R 0,0,9,0,0,0' 'BankGroup: found 9, expected less than 4'
bad 'R 0,0,0,0' 'expected a comma'
: >"$tmp/bad.trace"
run dram --kind DDR4_3200AA --trace "$tmp/bad.trace"
says err 'has no requests'

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
