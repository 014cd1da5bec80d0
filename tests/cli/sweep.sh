# SPDX-License-Identifier: GPL-3.0-or-later
# Sourced after lib.sh by the tests of sweeps: a small experiment to run.

# small FILE [LINE..]: 20 cells of one model; the lines are added
small()
{
  file=$1
  shift
  cat >"$file" <<'END'
schema = 1;
name = "small";
models = "olmoe-1b-7b-0924";
machines = "gpu-a100";
workloads = { phase = "decode"; batch = [1, 4]; context = 256; seed = [1, 2]; };
stages = ("legalize", "mla-absorb", "moe-lower",
  { slot = "fuse"; base = "fuse-none"; full = "fuse-epilogue"; },
  "dispatch-host", "map-rowmajor", "sched-inorder",
  { slot = "mem"; base = "mem-bump"; full = "mem-firstfit"; }, "emit-queues");
ablations = ["baseline", "add-one-in", "leave-one-out", "full"];
END
  for line; do
    echo "$line" >>"$file"
  done
}

# table FILE.h5: everything that does not depend on the host
table()
{
  "$nmbench" export --csv --simulated "$1"
}

# same A.h5 B.h5 WHAT
same()
{
  table "$1" >"$tmp/table.a" && table "$2" >"$tmp/table.b" || fail "$3: no table"
  cmp -s "$tmp/table.a" "$tmp/table.b" || {
    fail "$3: results differ"
    diff "$tmp/table.a" "$tmp/table.b" | cut -c 1-300 | head -5
  }
}

# lines FILE: of results in a journal
lines()
{
  grep -c '^[0-9a-f]' "$1" 2>/dev/null
}

# await FILE N: until the journal has N results; says so when 60 s were not enough
await()
{
  tries=0
  until have=$(lines "$1") && [ "$have" -ge "$2" ]; do
    tries=$((tries + 1))
    [ $tries -lt 1200 ] || { fail "$1: ${have:-0} results after 60 s, expected $2"; return 1; }
    sleep 0.05
  done
}
