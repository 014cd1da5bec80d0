#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# A plugin that crashes, hangs or eats memory costs its rows and nothing else.
. "${srcdir:-.}/tests/lib.sh"
. "$srcdir/tests/cli/sweep.sh"
libs=$PWD/tests/plugins/.libs
for p in crash endless-loop memory-hog; do
  [ -e "$libs/$p.so" ] || skip "$libs/$p.so is not built"
done
rest="dispatch-host,map-rowmajor,sched-inorder,mem-bump,emit-queues"
cat >"$tmp/f.cfg" <<END
schema = 1;
name = "failures";
plugins = ["$libs/crash.so", "$libs/endless-loop.so", "$libs/memory-hog.so"];
models = "olmoe-1b-7b-0924";
machines = "gpu-a100";
workloads = { phase = "decode"; batch = 1; context = [128, 256]; };
limits = { time = "3s"; memory = "40MiB"; };
pipelines = (
  { name = "good"; passes = "legalize,mla-absorb,moe-lower,fuse-none,$rest"; },
  { name = "crash"; passes = "legalize,mla-absorb,moe-lower,crash,$rest"; },
  { name = "hang"; passes = "legalize,mla-absorb,moe-lower,endless-loop,$rest"; },
  { name = "hog"; passes = "legalize,mla-absorb,moe-lower,memory-hog,$rest"; }
);
END
want="8 cells, 2 ok, 2 timeout, 2 crash, 2 oom"
if [ "${NMB_ASAN-}" ]; then # the sanitizer leaves no room for a limit of memory
  ASAN_OPTIONS=handle_segv=0
  export ASAN_OPTIONS
  sed -i -e '/name = "hog"/d' -e '/name = "hang"/s/,$//' "$tmp/f.cfg"
  want="6 cells, 2 ok, 2 timeout, 2 crash"
fi
cells=${want%% *}
run run "$tmp/f.cfg" -j 2 -o "$tmp/f.h5"
expect 3 "a run with failures"
says out "$want"
run status "$tmp/f.h5"
says out "died of signal 11 (Segmentation fault) in pass 'crash'"
says out "stopped after 3 s in pass 'endless-loop'"
[ "${NMB_ASAN-}" ] || says out "in pass 'memory-hog'"
run run "$tmp/f.cfg" -o "$tmp/f.h5"
expect 3 "the same run again"
says out "0 jobs run now, $cells had been done"
run run "$tmp/f.cfg" -o "$tmp/f.h5" --retry-failed --only pipeline=crash
says out "2 jobs run now"

# a model that does not fit is an outcome with numbers, not a failure
sed -e '/name = "crash"/d; /name = "hang"/d; /name = "hog"/d; /plugins =/d' \
  -e 's/emit-queues"; },/emit-queues"; }/; s/"olmoe.*"/"mixtral-8x22b-v0.1"/' "$tmp/f.cfg" >"$tmp/m.cfg"
run run "$tmp/m.cfg" -o "$tmp/m.h5"
expect 0 "a model that does not fit"
says out "2 infeasible"
run log "$tmp/m.h5" 0
says out "byte"
exit $bad
