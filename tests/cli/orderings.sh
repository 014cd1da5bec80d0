#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# What wins where: crossovers and gains that were published must come out.
. "${srcdir:-.}/tests/lib.sh"

number() # NAME: the first of that name in the last run's JSON
{
  sed -n "s/^ *\"$1\": \([0-9.e-]*\),*\$/\1/p" "$tmp/out" | head -1
}

less() # A B WHAT
{
  awk -v a="$1" -v b="$2" 'BEGIN { exit !(a != "" && b != "" && a + 0 < b + 0) }' ||
    fail "$3: $1 is not less than $2"
}

# --------------------------- HBM-PIM: a pass costs the same for up to 4096 outputs
pim()
{
  run op "gemv out=$1 in=4096 dtype=fp16" -M hbm2-pim --json
  number cycles
}
# weights to the host: 64 pseudo-channels, 32 B each 2 ns at best
stream()
{
  echo $(($1 * 4096 * 2 / 64 / 32 * 2))
}
[ "$(pim 1024)" = "$(pim 4096)" ] || fail "1024 and 4096 outputs differ"
less "$(stream 1024)" "$(pim 1024)" "streaming 1024 outputs against PIM"
less $(($(pim 4096) * 2)) "$(stream 4096)" "twice PIM against streaming 4096 outputs"

# ------------------------------ AiM: columns share a filling of the global buffer
run op 'gemv out=4096 in=4096' -M aim-gddr6 --set refresh=off --set reuse=1 --json
[ "$(number cycles)" = 9664 ] || fail "read back at once: $(number cycles)"
run op 'gemv out=4096 in=4096' -M aim-gddr6 --set refresh=off --json
[ "$(number cycles)" = 8124 ] || fail "32 columns share: $(number cycles)"

# ------------- NeuPIMs: two row buffers and sub-batches pay at large batch, not before
cat >"$tmp/gpt3-30b.json" <<'EOF'
{"model_type": "gpt2", "n_embd": 7168, "n_head": 56, "n_layer": 48, "n_positions": 2048,
 "vocab_size": 50257, "activation_function": "gelu_new"}
EOF
step() # batch machine sched: seconds
{
  run compile -m "$tmp/gpt3-30b.json" -M "$2" --batch "$1" --context 228 --json -p \
    "legalize,fuse-none,dispatch-rule,map-interleave,$3,mem-bump,emit-queues" -s event
  expect 0 "$*"
  sed -n '/"time_per_output_token"/,/value/s/^ *"value": \([0-9.e-]*\),*$/\1/p' "$tmp/out" | head -1
}
blocked=npu-hbm-pim-x8+blocking
interleaved='sched-overlap{mode=batch}'
less "$(step 64 npu-hbm-pim-x8 sched-inorder)" "$(step 64 npu-hbm-pim-x8 "$interleaved")" \
  "in order against interleaved at batch 64"
for batch in 256 512; do
  naive=$(step $batch $blocked sched-inorder)
  one=$(step $batch $blocked "$interleaved")
  both=$(step $batch npu-hbm-pim-x8 "$interleaved")
  less "$both" "$one" "two row buffers against one, interleaved, batch $batch"
  less "$both" "$naive" "NeuPIMs against naive NPU and PIM, batch $batch"
  awk -v a="$both" -v b="$naive" 'BEGIN { exit !(b / a > 1.05) }' ||
    fail "gain of NeuPIMs at batch $batch: $naive over $both"
done

# ------- Pimba: one half of the bytes, and reads beside writes, each make updates faster
update()
{
  run op "state heads=80 values=64 keys=128 batch=$3 dtype=$2" -M "$1" --json
  number cycles
}
for batch in 32 128; do
  less "$(update gpu-a100-pimba mx8 $batch)" "$(update gpu-a100-pimba fp16 $batch)" "MX8"
  less "$(update gpu-a100-pimba fp16 $batch)" "$(update gpu-a100-pimba+hbm-pim fp16 $batch)" \
    "interleaving"
done
for shape in 'state heads=80 values=64 keys=128 batch=32' 'state heads=16 values=128 batch=40' \
  'attention heads=32 kv_heads=8 kv_len=1000 batch=8'; do
  for machine in gpu-a100-pimba gpu-a100-pimba+hbm-pim; do
    run op "$shape dtype=fp16" -M $machine --json
    off=$(number error_analytic)
    awk -v e="$off" 'BEGIN { exit !(e != "" && e < 0.05 && e > -0.05) }' ||
      fail "$shape on $machine: closed form off by $off"
  done
done
exit $bad
