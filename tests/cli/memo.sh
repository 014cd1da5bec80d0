#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# Costs of instructions that cells share, and what a cell's key holds of DRAM.
. "${srcdir:-.}/tests/lib.sh"
. "$srcdir/tests/cli/sweep.sh"
cat >"$tmp/s.cfg" <<'END'
schema = 1;
name = "shared";
models = [ "tinyllama-1.1b-chat-v1.0", "olmoe-1b-7b-0924" ];
machines = [ "aim-gddr6", "gpu-a100" ];
workloads = { phase = "decode"; batch = [1, 2]; context = 256; };
simulators = ( "bound{fidelity=cycle}", "event{fidelity=cycle}" );
stages = ("legalize", "moe-lower", { slot = "fuse"; base = "fuse-none"; full = "fuse-epilogue"; },
  "dispatch-rule", "map-interleave", "sched-inorder", "mem-bump", "emit-queues");
ablations = ["baseline", "full"];
END

# -------------------------------------- who found a cost first changes no result
run run "$tmp/s.cfg" -o "$tmp/apart.h5" -j 1 --apart --no-figures
expect 0 "run --apart"
grep -q "found in other cells" "$tmp/out" && fail "--apart shares"
for jobs in 1 3; do
  run run "$tmp/s.cfg" -o "$tmp/shared$jobs.h5" -j $jobs --no-figures
  expect 0 "run -j $jobs"
  says out "found in other cells"
  same "$tmp/apart.h5" "$tmp/shared$jobs.h5" "costs shared by $jobs"
done

# ---------------------- a kind of DRAM that changed: cells in memory run again
mkdir -p "$tmp/data/dram"
cp "$srcdir"/hwsim/dram/gddr6-aim.dram "$tmp/data/dram"
export NMB_DATA_PATH="$tmp/data"
run plan "$tmp/s.cfg" -o "$tmp/shared1.h5"
says out "left: 0"
printf '# changed\n' >>"$tmp/data/dram/gddr6-aim.dram"
run plan "$tmp/s.cfg" -o "$tmp/shared1.h5"
says out "left: 8"
exit $bad
