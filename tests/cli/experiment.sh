#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# What is wrong in an experiment file is said with file and line before anything runs.
. "${srcdir:-.}/tests/lib.sh"
. "$srcdir/tests/cli/sweep.sh"

# wrong SED WORDS..: the small experiment, changed, is refused with these words
wrong()
{
  small "$tmp/w.cfg"
  sed "$1" "$tmp/w.cfg" >"$tmp/x.cfg"
  edit=$1
  shift
  run run "$tmp/x.cfg" -o "$tmp/x.h5"
  expect 2 "$edit"
  for words; do
    says err "$words"
  done
  silent out
  [ ! -e "$tmp/x.h5.journal" ] || fail "$edit: something was run"
}

wrong 's/^machines/machins/' "x.cfg:4: error: unknown key 'machins'" "did you mean 'machines'"
wrong 's/batch =/bach =/' "x.cfg:5: error: unknown key 'bach' in a workload" "'batch'"
wrong 's/base = "fuse-none"/bsae = "fuse-none"/' "x.cfg:7" "unknown key 'bsae'"
wrong 's/gpu-a100/gpu-a10/' "x.cfg:4: error: unknown machine 'gpu-a10'" "'gpu-a100'"
wrong 's/olmoe-1b-7b-0924/olmoe-1b-7b-0925/' "olmoe-1b-7b-0924"
wrong 's/"fuse-none"/"fuse-nome"/' "unknown" "fuse-none"
wrong 's/"mem-bump"/"mem-bump{no=1}"/' "no"
wrong 's/"mem-bump"/"sched-inorder{,"/' "sched-inorder"
wrong 's/batch = .1, 4./batch = [1, 0]/' "x.cfg:5: error: 'batch' is 0, expected 1"
wrong 's/batch = .1, 4./batch = "1"/' "'batch' is a text, expected whole numbers"
wrong 's/batch = .1, 4./batch = 1.5/' "'batch' is a number with a point"
wrong 's/"decode"/"encode"/' "unknown phase 'encode', expected decode or prefill"
wrong 's/seed = .*; }/routing = "zip"; }/' "unknown routing 'zip'" "did you mean 'zipf'"
wrong 's/seed = .*; }/routing = "zipf"; }/' "routing 'zipf' needs a skew"
wrong 's/"add-one-in"/"add-one"/' "x.cfg:10: error: unknown ablation 'add-one'" "'add-one-in'"
wrong 's/^models.*//' "no 'models' in the experiment"
wrong 's/^schema = 1/schema = 2/' "'schema' is 2, expected 1..1"
wrong 's/^schema = 1;//' "no 'schema = 1;'"
wrong 's/^name = .*/name = "a b";/' "cannot name an experiment"
wrong 's/^models = /models = = /' "x.cfg:3" "syntax error"
wrong 's/^models = .*/models = ["olmoe-1b-7b-0924", "olmoe-1b-7b-0924"];/' "stands here twice"
wrong 's/^ablations = .*/limits = { time = "5"; };/' "x.cfg" "5"
wrong 's/^ablations = .*/limits = { time = "5 parsecs"; };/' "parsecs"
wrong 's/^ablations = .*/simulators = ["event", "evnt"];/' "evnt" "event"
wrong 's/^ablations = .*/skip = ( { machin = "x"; why = "y"; } );/' "unknown label 'machin'" "'machine'"
wrong 's/^ablations = .*/skip = ( { machine = "x"; } );/' "no 'why' here"
wrong 's/^ablations = .*/sweeps = ( { name = "s"; pipelines = ["bas"]; } );/' \
  "no pipeline is named 'bas'" "'base'"
wrong 's/"mem-bump"/"mem-${bump}"/' "parameter 'bump', which no 'params' declare"
wrong 's/^ablations = .*/params = { machine = [1, 2]; };/' "cannot have the name 'machine'"
wrong 's/^ablations = .*/@include "nowhere.cfg"/' "x.cfg"
wrong 's/^ablations = .*/plugins = ["none.so"];/' "none.so"

run run "$tmp/nothing-there.cfg"
expect 2 "an experiment that is not there"
small "$tmp/s.cfg"
run run "$tmp/s.cfg" --only modle=x -o "$tmp/x.h5"
expect 2 "an unknown label"
says err "did you mean 'model'"
run run "$tmp/s.cfg" --only model=mixtral* -o "$tmp/x.h5"
expect 2 "a filter that nothing passes"
run run "$tmp/s.cfg" --only model -o "$tmp/x.h5"
expect 2 "a filter without a pattern"
run run "$tmp/s.cfg" -j 0 -o "$tmp/x.h5"
expect 2 "no workers"

# sweeps, skips, parameters, includes
cat >"$tmp/common.cfg" <<'END'
schema = 1;
models = ["olmoe-1b-7b-0924", "deepseek-v2-lite"];
END
cat >"$tmp/p.cfg" <<'END'
@include "common.cfg"
name = "p";
machines = ["gpu-a100"];
workloads = ( { phase = "decode"; batch = [1, 8]; context = 64; routing = ("uniform", { kind = "zipf"; skew = [0.8, 1.2]; }); },
              { phase = "prefill"; batch = 1; context = 64; } );
params = { bits = ["bf16", "int8"]; };
pipelines = ( { name = "q"; passes = ["legalize,mla-absorb", "moe-lower", "quantize{weights=${bits}}",
  "fuse-none,dispatch-host,map-rowmajor,sched-inorder,mem-bump,emit-queues"]; } );
sweeps = ( { name = "main"; },
           { name = "again"; models = "olmoe-1b-7b-0924"; },
           { name = "one"; models = "llama-3.1-8b"; workloads = { phase = "decode"; batch = 2; context = 32;
             routing = ("uniform", "balanced"); }; params = { bits = "bf16"; }; } );
skip = ( { model = "deepseek*"; phase = "prefill"; why = "left out by this test"; } );
END
run plan "$tmp/p.cfg"
expect 0 "plan with sweeps"
# main: 2 models x 7 workloads x 2 values, less 2 skipped; one: 2, which share a job
says out "cells: 28; 14 more stand in several sweeps"
says out "jobs: 27; 1 cells share the result of another"
says out "skipped: 2 cells (left out by this test)"
run plan "$tmp/p.cfg" --cells
grep -q 'batch=8,context=64,routing=zipf0.8,seed=1,bits=int8' "$tmp/out" || fail "no cell with bits=int8"

# the example of the documentation
awk '/^```$/ { n++; next } n == 1' "$srcdir/docs/experiment.md" >"$tmp/doc.cfg"
run plan "$tmp/doc.cfg"
expect 0 "the example of docs/experiment.md"
says out "cells: 432"
exit $bad
