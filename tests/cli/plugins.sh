#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# Plugins that break the contract are refused with one line each; the rest works.
. "${srcdir:-.}/tests/lib.sh"
NMB_PLUGIN_PATH=$PWD/tests/plugins/.libs
export NMB_PLUGIN_PATH

run list passes
expect 0 "list with bad plugins"
says out "fuse-none "
says out "wrong-section "
says err "bad-abi.so: plugin has ABI 3, this nmbench has ABI 2; it needs a newer nmbench"
says err "bad-size.so: descriptor has "
says err "plugin 'fuse-none' is already loaded from "
says err "plugin 'no-limits' has no limits"
says err "metric 'length': unknown unit 'furlong'"
[ "$(wc -l <"$tmp/err")" = 5 ] || fail "expected 5 warnings: $(cat "$tmp/err")"
grep -q 'furlongs' "$tmp/out" && fail "a refused plugin is listed"

run show no-limits
expect 2 "a refused plugin that is needed"
says err "was refused: "

run list --json
expect 0 "json with bad plugins"
if command -v python3 >/dev/null; then
  python3 -c 'import json,sys; d=json.load(sys.stdin)
assert "crash" in [p["name"] for p in d["passes"]], d
assert d["passes"][0]["kind"], d' <"$tmp/out" || fail "list --json"
fi
exit $bad
