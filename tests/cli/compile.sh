#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# compile and sim: programs go through text unharmed, failures name their cause and
# leave a program that shows them again.
. "${srcdir:-.}/tests/lib.sh"
model=olmoe-1b-7b-0924
machine=gpu-a100
rewrite=legalize,mla-absorb,moe-lower
plan=$rewrite,fuse-none,dispatch-host,map-rowmajor,sched-inorder,mem-bump,emit-queues

run compile -m $model -M $machine -p $plan --batch 3 --context 100 -o "$tmp/p.nmb"
expect 0 compile
says out "$model on $machine: decode, batch 3"
silent err

run compile "$tmp/p.nmb" -o -
expect 0 "compile of text, no pass"
cmp -s "$tmp/p.nmb" "$tmp/out" || fail "text is not the same after reading and printing"

run sim "$tmp/p.nmb" -s bound,event --json
expect 0 sim
silent err
cp "$tmp/out" "$tmp/json"
"$nmbench" sim - -s bound,event --json <"$tmp/p.nmb" >"$tmp/out" 2>"$tmp/err" || fail "sim -"
cmp -s "$tmp/json" "$tmp/out" || fail "sim of standard input differs"
run compile -m $model -M $machine -p $plan --batch 3 --context 100 -s bound,event --json
expect 0 "compile -s"
if command -v python3 >/dev/null; then
  python3 - "$tmp/json" "$tmp/out" <<'E' || fail "metrics of sim or compile -s"
import json, sys
a, b = (json.load(open(f)) for f in sys.argv[1:])
assert a["metrics"] == b["metrics"], "compile -s and sim differ"
value = {m["name"]: m["value"] for m in a["metrics"] if "a" not in m}
assert 0 < value["bound"] <= value["latency"] <= value["serial"] * (1 + 1e-12), value
assert [p["pass"] for p in b["passes"]][-1] == "emit-queues" and b["instructions"] > 0
E
fi

run compile -m $model -M $machine -p $plan --phase prefill --context 64 --routing zipf:1.2 --time --stats
expect 0 prefill
says out "prefill, batch 1, 64 new tokens"
says out "kernels"
says out "MiB at most"

# the same seed, the same bytes; another seed, another routing
for seed in 4 4 5; do
  "$nmbench" compile -m $model -M $machine -p $rewrite --batch 2 --seed $seed -o - 2>/dev/null | cksum
done >"$tmp/sums"
[ "$(sort -u "$tmp/sums" | wc -l)" = 2 ] || fail "seeds: $(cat "$tmp/sums")"

run compile "$tmp/p.nmb" -p fuse-none,dispatch-host --print-after fuse-none
says out "# after fuse-none"
grep -q "# after dispatch" "$tmp/out" && fail "--print-after prints after other passes"
run compile "$tmp/p.nmb" -p fuse-none,dispatch-host --print-changed
says out "# after dispatch-host"
run compile "$tmp/p.nmb" -p fuse-none --print-after fuse-dp
expect 2 "--print-after of a pass that is not there"

# what is wrong with the input
run compile -m $model -M $machine -p sched-inorder
expect 2 "missing sections"
says err "dispatch (written by dispatch-"
run compile -m olmoe-1b-7b-0925 -M $machine
expect 2 "unknown model"
says err "olmoe-1b-7b-0924"
run compile -m $model -M gpu-a10
expect 2 "unknown machine"
says err "did you mean 'gpu-a100'?"
run compile -m $model -M $machine --routing zipf
expect 2 "routing without skew"
run compile -m $model -M $machine --batch 0
expect 2 "batch of nothing"
run compile -m $model -M $machine --batch two
expect 2 "batch that is no number"
run compile -M $machine
expect 2 "no model"
run compile -m $model "$tmp/p.nmb"
expect 2 "model and program"
head -c 300 "$srcdir/models/$model.json" >"$tmp/cut.json"
run compile -m "$tmp/cut.json" -M $machine
expect 2 "truncated config.json"
says err "cut.json:"
head -c 2000 "$tmp/p.nmb" >"$tmp/cut.nmb"
run sim "$tmp/cut.nmb"
expect 2 "truncated program"
says err "cut.nmb:"
run compile -m $model -M $machine -p $rewrite -o "$tmp/no/such/folder.nmb"
expect 6 "unwritable output"
says err "No such file or directory"
if [ -w /dev/full ]; then
  run compile -m $model -M $machine -p $rewrite -o /dev/full
  expect 6 "full disk"
fi

# outcomes are not errors: exit code 1, with the bytes
run compile -m deepseek-v3 -M gpu-a100 -p $plan
expect 1 "a model that does not fit"
grep -Eq '[0-9]+ .*(has|available)' "$tmp/err" || fail "bytes are not named: $(cat "$tmp/err")"
run compile -m deepseek-v3 -M gpu-a100 -p $plan --json
expect 1 "a model that does not fit, as JSON"
says out '"status": "infeasible"'
says out '"reason":'

# a composite that no pass has lowered is named, not turned into code
run compile -m $model -M $machine \
  -p legalize,fuse-none,dispatch-host,map-rowmajor,sched-inorder,mem-bump,emit-queues
expect 2 "emit without moe-lower"
says err "expected what 'moe-lower' makes of it"

# a plugin that breaks the contract, and what --repro leaves
NMB_PLUGIN_PATH=$PWD/tests/plugins/.libs
export NMB_PLUGIN_PATH
run compile -m $model -M $machine -p $rewrite,wrong-section,dispatch-host --repro "$tmp/repro.nmb"
expect 2 "a pass that changes what it does not declare"
says err "'wrong-section' changed section graph"
grep -q "# nmbench compile THIS-FILE -p 'wrong-section,dispatch-host'" "$tmp/repro.nmb" ||
  fail "repro: pipeline"
grep -q "^# badplugin: " "$tmp/repro.nmb" || fail "repro: error"
run compile "$tmp/repro.nmb" -p wrong-section,dispatch-host
expect 2 "the repro"
says err "'wrong-section' changed section graph"
rm -f "$tmp/repro.nmb"
ASAN_OPTIONS=handle_segv=0 # a crash is to be one, also with the sanitizer
export ASAN_OPTIONS
run compile -m $model -M $machine -p $rewrite,crash --repro "$tmp/repro.nmb"
[ "$code" -gt 2 ] || fail "a crash gives exit code $code"
run compile "$tmp/repro.nmb"
expect 0 "the repro of a crash"
run compile -m $model -M $machine -p $plan -s infinite-metric
expect 2 "an infinite metric"
says err "infinite-metric"
exit $bad
