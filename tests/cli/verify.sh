#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# verify: compiled code computes what the model says, through every way to fuse,
# dispatch, map, schedule and place memory.
. "${srcdir:-.}/tests/lib.sh"
data="${srcdir:-.}/tests/data"
rewrite=legalize,mla-absorb,moe-lower

run verify "$data/tiny-llama.json" --orders 1 --decode 1
expect 0 verify
silent err
says out "top-1 agreement"
run verify "$data/tiny-moe.json" -M aim-gddr6-x8 --json --orders 1 --decode 1 \
  -p $rewrite,fuse-dp,dispatch-cost,map-rowmajor,sched-overlap,mem-bestfit,emit-queues
expect 0 "verify of experts on devices"
if command -v python3 >/dev/null; then
  python3 - "$tmp/out" <<'E' || fail "facts of verify"
import json, sys
d = json.load(open(sys.argv[1]))
assert d["status"] == "ok" and d["first_diff"] is None, d["status"]
assert 0 < d["logits"]["kl"] < 0.01 and d["logits"]["rows"] == 4, d["logits"]
assert all(t["rms_error"] < 0.01 for t in d["tensors"]) and len(d["tensors"]) > 20
E
fi
run verify "$data/tiny-mla.json" -M npu-hbm-pim --batch 3 --decode 1 \
  -p $rewrite,fuse-epilogue,dispatch-rule,map-search,sched-list,mem-bump,emit-queues
expect 0 "verify of latent attention"
# caches that layers share, and an indexer's choice beyond its number of keys
run verify "$data/tiny/gemma4_e2b.json" -M aim-gddr6-x8 --orders 1 --decode 1 \
  -p $rewrite,fuse-greedy,dispatch-cost,map-search,sched-list,mem-greedy-size,emit-queues
expect 0 "verify of shared caches"
run verify "$data/tiny/glm5_shared.json" -M hbm3-attacc-x1 --orders 1 --decode 2 --prompt 7 \
  -p $rewrite,fuse-epilogue,dispatch-rule,map-interleave,sched-overlap,mem-firstfit,emit-queues
expect 0 "verify of chosen keys"
run verify "$data/tiny-llama.json" --batch 0
expect 2 "no sequences"
