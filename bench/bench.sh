#!/bin/bash
# SPDX-License-Identifier: GPL-3.0-or-later
# How fast is nmbench itself?  Usage: bench.sh NMBENCH SRCDIR
# Prints a line per measurement beside the limit we want to keep; the exit code is
# 1 if one is missed.  Times are of the machine it runs on: 2 cores were meant.
set -u
nmbench=$1
src=$2
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
missed=0

# row WHAT VALUE UNIT LIMIT
row()
{
  local verdict=ok
  awk -v v="$2" -v l="$4" 'BEGIN {exit !(v <= l)}' || verdict=MISSED missed=1
  printf '%-58s %9.3f %-4s limit %5s  %s\n' "$1" "$2" "$3" "$4" "$verdict"
}

# field KEY: of the JSON on stdin, where it occurs once
field()
{
  sed -n "s/^ *\"$1\": \([0-9.e+-]*\),\{0,1\}\$/\1/p"
}

# least WHAT VALUE UNIT LIMIT: more is better
least()
{
  local verdict=ok
  awk -v v="$2" -v l="$4" 'BEGIN {exit !(v >= l)}' || verdict=MISSED missed=1
  printf '%-58s %9.3f %-4s least %5s  %s\n' "$1" "$2" "$3" "$4" "$verdict"
}

if [[ -x ./bench/dram-steps ]]; then
  while IFS=$'\t' read -r what millions; do
    case $what in
    stepped*) least "DRAM commands $what" "$millions" M/s 20 ;;
    *) least "DRAM commands $what" "$millions" M/s 0.35 ;;
    esac
  done < <(./bench/dram-steps)
fi

# seconds COMMAND...: of processor time
seconds()
{
  local TIMEFORMAT='%U %S'
  { time "$@" >"$tmp/text" 2>"$tmp/err"; } 2>&1 | awk '{print $1 + $2}'
}

# decode WHAT LEAST COMMAND...: tokens a second of processor time, opening left out
decode()
{
  local what=$1 most=$2 few many
  shift 2
  few=$(seconds "$nmbench" generate "$@" --tokens 1 --ignore-eos -n 8)
  many=$(seconds "$nmbench" generate "$@" --tokens 1 --ignore-eos -n 72)
  least "decode $what" "$(awk -v a="$few" -v b="$many" 'BEGIN {print 64 / (b - a)}')" t/s "$most"
}

decode "stories260k, reference" 100 stories260k
decode "stories260k, functional on AiM" 20 stories260k --machine aim-gddr6
if [[ -x ./bench/weights ]] && ./bench/weights >"$tmp/15m.bin"; then
  decode "15 million parameters, reference" 100 "$tmp/15m.bin"
  decode "15 million parameters, functional on AiM" 20 "$tmp/15m.bin" --machine aim-gddr6
fi

# a llama2.c file of 115 GB, all holes: what opening it takes beyond a file of 1 MB; width 8192,
# network 24576, 32 layers, 64 heads, vocabulary 32000, context 2048
printf '\000\040\000\000\000\140\000\000\040\000\000\000\100\000\000\000' >"$tmp/big.bin"
printf '\100\000\000\000\000\175\000\000\000\010\000\000' >>"$tmp/big.bin"
if truncate -s 115G "$tmp/big.bin"; then
  large=$(seconds "$nmbench" model "$tmp/big.bin")
  grep -q 'layers   32' "$tmp/text" || { echo "a file of 115 GB: failed"; missed=1; }
  small=$(seconds "$nmbench" model stories260k)
  row "opening 115 GB of weights: processor time" "$(awk -v a="$large" -v b="$small" 'BEGIN {print a - b}')" s 0.05
  rm -f "$tmp/big.bin"
fi

plan=fuse-dp,dispatch-cost,map-interleave,sched-list,mem-bestfit,emit-queues

# cell NAME MODEL MACHINE REWRITES: graph, all passes, bound and event, once
cell()
{
  "$nmbench" compile -m "$2" -M "$3" --batch 32 --context 8192 -p "$4,$plan" -s bound,event --json \
    >"$tmp/cell.json" || { echo "$1: failed"; missed=1; return; }
  row "$1: processor time" "$(field host_seconds <"$tmp/cell.json")" s 0.3
  row "$1: memory" "$(field host_peak_bytes <"$tmp/cell.json" | awk '{print $1 / 1e6}')" MB 200
}

cell "one cell, DeepSeek-V3 decode on AiM" deepseek-v3 aim-gddr6-x96 "legalize,mla-absorb,moe-lower,quantize{weights=bf16}"
cell "one cell, DeepSeek-V3 decode on GPUs" deepseek-v3 gpu-h100-x16 "legalize,mla-absorb,moe-lower"

# the whole decode step of Llama-2-70B on 32 channels, command by command, all passes too;
# the channels are made deep enough to hold it
"$nmbench" compile -m llama-2-70b-hf -M aim-gddr6 --set dram.size=256GiB --batch 1 --context 2048 \
  -p "legalize,$plan" -s 'bound{fidelity=cycle},event{fidelity=cycle}' --json >"$tmp/cell.json" ||
  { echo "Llama-2-70B: failed"; missed=1; }
row "Llama-2-70B decode on 32 AiM channels, cycle fidelity" "$(field host_seconds <"$tmp/cell.json")" s 0.2

# compile time should grow with distinct blocks, not with layers
for model in llama-2-7b-hf mixtral-8x7b-v0.1 gpt-oss-20b deepseek-v2-lite deepseek-v3; do
  "$nmbench" compile -m $model -M aim-gddr6-x96 --batch 8 --context 2048 \
    -p "legalize,mla-absorb,moe-lower,quantize{weights=bf16},$plan" --json >"$tmp/cell.json" || continue
  awk -v m=$model -v b="$(field blocks <"$tmp/cell.json")" -v s="$(field host_seconds <"$tmp/cell.json")" \
    'BEGIN { printf "%-58s %9.3f s\n", "compile " m ", " b " distinct blocks", s }'
done

if [[ -f $src/experiments/moe.cfg ]]; then
  start=$EPOCHREALTIME
  "$nmbench" run "$src/experiments/moe.cfg" --fresh -o "$tmp/moe.h5" >"$tmp/log" 2>&1
  code=$?
  ((code == 0 || code == 3)) || { tail -n 5 "$tmp/log"; missed=1; }
  row "experiments/moe.cfg, all cells" "$(awk -v a="$start" -v b="$EPOCHREALTIME" 'BEGIN {print b - a}')" s 60
fi
exit $missed
