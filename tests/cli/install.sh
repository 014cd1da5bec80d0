#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# From an installation (staged elsewhere), a plugin built outside of the tree by
# one cc line shows up.
. "${srcdir:-.}/tests/lib.sh"
command -v pkg-config >/dev/null || skip "no pkg-config"
src=$(cd "$srcdir" && pwd)
stage=$tmp/stage
${MAKE:-make} install DESTDIR="$stage" >"$tmp/log" 2>&1 || { tail -n 20 "$tmp/log"; fail "make install"; exit 1; }

pc=$(find "$stage" -name nmbench.pc)
prefix=$(PKG_CONFIG_PATH=$(dirname "$pc") pkg-config --variable=prefix nmbench)
PKG_CONFIG_PATH=$(dirname "$pc")
export PKG_CONFIG_PATH
pkg="pkg-config --define-variable=prefix=$stage$prefix"
libdir=$($pkg --variable=libdir nmbench)
plugindir=$($pkg --variable=plugindir nmbench)
nmbench=$stage$prefix/bin/nmbench
LD_LIBRARY_PATH=$libdir
export LD_LIBRARY_PATH
[ -x "$nmbench" ] || fail "no $nmbench"
[ -d "$plugindir" ] || fail "no folder $plugindir"
cd "$tmp" || exit 99

run list passes
expect 0 "installed nmbench"
says out "fuse-none "
grep -v 'warning: plugin refused' "$tmp/err"
for what in models machines experiments; do
  run list "$what"
  [ -s "$tmp/out" ] || fail "installed nmbench has no $what"
done

sed -e 's/fuse-none/fuse-mine/g' "$src/passes/fuse/fuse-none.c" >fuse-mine.c
cc -std=c11 -fPIC -shared -o fuse-mine.so fuse-mine.c $($pkg --cflags --libs nmbench) ||
  fail "the one cc line"
mkdir elsewhere && cp fuse-mine.so elsewhere/
NMB_PLUGIN_PATH=$tmp/elsewhere
export NMB_PLUGIN_PATH
run list passes
says out "fuse-mine "
cat >mine.cfg <<'E'
schema = 1;
name = "mine";
models = "olmoe-1b-7b-0924";
machines = "gpu-a100";
workloads = { phase = "decode"; batch = [1, 3]; context = 128; };
pipelines = (
  { name = "mine"; passes = "legalize,mla-absorb,moe-lower,fuse-mine,dispatch-host,map-rowmajor,sched-inorder,mem-bump,emit-queues"; }
);
E
run run mine.cfg -o mine.h5
expect 0 "a sweep with the plugin"
says out "2 cells, 2 ok"
unset NMB_PLUGIN_PATH
run plan mine.cfg
expect 2 "a sweep without the plugin"
says err "unknown pass 'fuse-mine'"
cp fuse-mine.so "$plugindir/"
run list passes
says out "fuse-mine "
[ -n "$(find "$stage" -name nmbench.1)" ] || fail "no man page"
[ -n "$(find "$stage" -path '*completions/nmbench')" ] || fail "no bash completion"

exit $bad
