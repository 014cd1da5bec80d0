#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# op: one op compiled and timed; the public AiM simulator's GEMVs to the cycle.
. "${srcdir:-.}/tests/lib.sh"

cycles()
{
  sed -n 's/^  "cycles": \([0-9.]*\),*$/\1/p' "$tmp/out"
}

# ------------------------------------------------- the whole stack, both fidelities
while IFS=, read -r out in channels reuse want; do
  case $out in '#'*) continue ;; esac
  for fidelity in analytic cycle; do
    run op "gemv out=$out in=$in dtype=bf16" --machine aim-gddr6 --set refresh=off \
      --set channels="$channels" --set reuse="$reuse" --fidelity $fidelity --json
    expect 0 "gemv $out $in"
    [ "$(cycles)" = "$want" ] ||
      fail "gemv out=$out in=$in channels=$channels reuse=$reuse $fidelity: $(cycles) cycles, expected $want"
  done
done <"$srcdir/tests/data/aim_gemv.csv"

# an option of the mapping may also be given in a pipeline
run op 'gemv out=4096 in=4096' -M aim-gddr6 --set engines.pim.refresh=off --json \
  -p 'legalize,fuse-none,dispatch-rule,map-interleave{reuse=1},sched-inorder,mem-bump,emit-queues'
expect 0 "op -p"
[ "$(cycles)" = 9664 ] || fail "op -p: $(cycles) cycles, expected 9664"

run op 'gemv out=1024,4096 in=4096' -M aim-gddr6 --host
expect 0 table
says out " 1024 "
says out " 4096 "
run op 'attention heads=32 kv_heads=8 kv_len=100 batch=3' -M aim-gddr6 --json
expect 0 attention
run op 'gemm m=16 n=64 k=100 dtype=int8' -M gpu-a100 --json
expect 0 gemm
if command -v python3 >/dev/null; then
  run op 'gemv out=1024,4096 in=1024,4096' -M aim-gddr6 --json --host
  python3 - "$tmp/out" <<'E' || fail "op --json"
import json, math, sys
rows = json.load(open(sys.argv[1]))["rows"]
assert [(r["sizes"]["out"], r["sizes"]["in"]) for r in rows] == [
    (1024, 1024), (1024, 4096), (4096, 1024), (4096, 4096)]
for r in rows:
    assert math.isclose(sum(r["energy"].values()), r["energy_total"], rel_tol=1e-9), r
    assert math.isclose(sum(r["time_parts"].values()), r["time"], rel_tol=1e-9), r
    assert 0 < r["bound"] <= r["time"] * (1 + 1e-12) and 0 < r["share_of_peak"] < 1, r
    assert r["host_time"] > r["time"], r
E
fi

# -------------------------------------------------------- AttAcc's attention kernels
# kernel MACHINE HEADS LENGTH SETTING CYCLES: within a thousandth
kernel()
{
  run op "attention heads=$2 kv_heads=$2 kv_len=$3 head_dim=128 batch=1" -M "$1" --set "$4" --json
  expect 0 "kernel $*"
  [ $(($(cycles) * 1000)) -ge $(($5 * 999)) ] && [ $(($(cycles) * 1000)) -le $(($5 * 1001)) ] ||
    fail "kernel $*: $(cycles) cycles"
}
kernel hbm3-attacc-stack 16 512 power-limited=on 930
kernel hbm3-attacc-stack 16 1024 power-limited=on 1890
kernel hbm3-attacc-stack 16 2048 power-limited=off 2818
kernel hbm3-attacc-stack 32 2048 power-limited=on 7861
kernel hbm3-attacc-stack 64 2048 power-limited=on 16161
kernel hbm3-attacc-stack 3 2049 power-limited=on 3930
kernel hbm3-attacc-stack+group 16 1024 power-limited=on 6719
kernel hbm3-attacc-stack+buffer 16 1024 power-limited=on 17981
run op 'attention heads=1 kv_len=512' -M hbm3-attacc-stack --stamps
sed -n 's/^ *\([0-9][0-9]*\)  \([A-Z]*\) *\([0-9]*\)$/\1,\2,\3/p' "$tmp/out" >"$tmp/stamps"
grep -v '^#' "$srcdir/tests/data/attacc_stamps.csv" | cmp -s - "$tmp/stamps" ||
  fail "stamps of an AttAcc channel"

# NeuPIMs' composite commands: 256 rows of products, four banks an activate
run op 'gemv out=4096 in=4096' -M npu-hbm-pim --set refresh=off --json
for count in '"COMPS_READRES": 32' '"G_ACT": 256' '"PIM_PRECHARGE": 32' '"GWRITE": 128'; do
  says out "$count"
done

# ------------------------------------------------ HBM-PIM: a pass covers 4096 outputs
if command -v python3 >/dev/null; then
  run op 'gemv out=256,1024,4096,4097 in=4096' -M hbm2-pim --host --json
  python3 - "$tmp/out" <<'E' || fail "crossover of HBM-PIM"
import json, sys
few, k1, k4, more = json.load(open(sys.argv[1]))["rows"]
assert few["cycles"] == k1["cycles"] == k4["cycles"] < more["cycles"]
assert k1["host_time"] < k1["time"], "1024 outputs should be better off streamed to the host"
assert k4["host_time"] > 2 * k4["time"], "4096 outputs should be twice as fast in memory"
E
fi

# ------------------------------------- UPMEM: eleven tasklets fill a DPU's pipeline
if command -v python3 >/dev/null; then
  for t in 1 11 24; do
    run op 'gemv out=40960 in=4096 dtype=int8' -M upmem --set tasklets=$t --json
    expect 0 "upmem with $t tasklets"
    cp "$tmp/out" "$tmp/upmem.$t"
  done
  python3 - "$tmp"/upmem.1 "$tmp"/upmem.11 "$tmp"/upmem.24 <<'E' || fail "tasklets of UPMEM"
import json, sys
one, eleven, more = (json.load(open(f)) for f in sys.argv[1:])
work = lambda r: r["time_parts"]["compute"] + r["time_parts"]["bus"]
assert 9 < work(one) / work(eleven) < 13, "tasklets should share the pipeline"
assert 0.85 < work(more) / work(eleven) < 1.05, "more than eleven should buy little"
assert all(abs(r["error_analytic"]) < 0.1 for r in (one, eleven, more))
E
fi

# values that come over a link are beside the kernel, not in it
if command -v python3 >/dev/null; then
  run op 'attention heads=96 kv_len=2048 batch=4' -M hbm3-attacc --json
  python3 - "$tmp/out" <<'E' || fail "transfers of op"
import json, math, sys
r = json.load(open(sys.argv[1]))
assert r["time_parts"]["transfer"] == 0 and r["transfers"]["time"] > r["time"] > 0, r
assert r["transfers"]["bytes"] > 96 * 128 * 4 * 2 and r["transfers"]["energy"] > 0, r
assert math.isclose(r["cycles"] * 0.769e-9, r["time"], rel_tol=1e-9), r
assert math.isclose(r["time_total"], r["time"] + r["transfers"]["time"]), r
E
  run op 'gemv out=10000 in=5000 dtype=int8' -M upmem --stamps --json
  python3 - "$tmp/out" <<'E' || fail "stamps of UPMEM"
import json, sys
r = json.load(open(sys.argv[1]))
at = [s["cycle"] for s in r["stamps"]]
assert at == sorted(at) and 1 == at[0] < at[-1] < r["cycles"], at
reads = [s["cycle"] for s in r["stamps"] if s["command"] == "MRAM_READ"]
assert len(reads) == r["commands"]["MRAM_READ"] == r["commands"]["MULTIPLY"] == 20
assert abs(r["error_analytic"]) < 0.05, r["error_analytic"]
E
fi

# -------------------------------------------------------------------------- traces
run compile -m tinyllama-1.1b-chat-v1.0 -M aim-gddr6 --emit aim-trace -o "$tmp/p.trace" -p \
  legalize,fuse-none,dispatch-rule,map-interleave,sched-inorder,mem-bump,emit-queues
expect 0 "compile --emit aim-trace"
run sim "$tmp/p.trace" -M aim-gddr6 --json
expect 0 "sim of a trace"
[ "$(cycles)" -gt 100000 ] || fail "a whole model takes $(cycles) cycles"
printf 'AiM MAC_ABK 64 1 0\nAiM MAC_ABQ 1 1 1\n' >"$tmp/bad.trace"
run sim "$tmp/bad.trace" -M aim-gddr6
expect 2 "sim of a bad trace"
says err "bad.trace:2: error:"
run sim "$tmp/p.trace"
expect 2 "sim of a trace without a machine"
run sim "$tmp/p.trace" -M gpu-a100
expect 1 "sim of a trace on a GPU"

# -------------------------------------------------------------------------- errors
for spec in 'gemvv out=3 in=3' 'gemv out=3' 'gemv out=3 in=0' 'gemv out=3 in=3 inn=4' \
  'gemv out=3 in=3 dtype=bf61' 'gemv out=3 in=3 in=4' 'gemv out in=3' '' \
  'attention heads=7 kv_heads=2 kv_len=9' 'gemv out=99999999999999999999 in=1'; do
  run op "$spec" -M aim-gddr6
  expect 2 "op '$spec'"
  [ "$(wc -l <"$tmp/err")" = 1 ] || fail "op '$spec': not one error: $(cat "$tmp/err")"
done
for set in refesh=off refresh=perhaps refresh channels=-1 devices=many pim.nothing=1; do
  run op 'gemv out=32 in=32' -M aim-gddr6 --set $set
  expect 2 "--set $set"
done
run op 'gemv out=32 in=32'
expect 2 "no machine"
says err "expected --machine"
exit $bad
