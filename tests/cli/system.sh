#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# nmbench system: published systems by their own rules.
. "${srcdir:-.}/tests/lib.sh"

run list systems
expect 0 "list"
says out attacc-dgx
run show attacc-dgx
expect 0 "show"
says out "pipeline"

run system 'attacc-dgx{batch=32}' --json
expect 0 "one system"
says out '"time": 0.0465726'
run system 'attacc-dgx{bach=32}'
expect 2 "unknown option"
says err "did you mean 'batch'?"
run system 'attac-dgx'
expect 2 "unknown system"
says err "did you mean 'attacc-dgx'?"
run system event
expect 2 "a simulator is none"

# GPUs alone: AttAcc changes attention and what goes to it, nothing else
part()
{
  "$nmbench" system "attacc-dgx{batch=8,pim=$1}" --json | sed -n 's/.*"feed-forward": \([0-9.e-]*\),*/\1/p' | head -1
}
[ "$(part none)" = "$(part bank)" ] || fail "feed-forward depends on AttAcc without sharing"
exit $bad
