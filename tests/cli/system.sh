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

# CENT: published times of a block (its artifact, Llama-2-7B, context 512)
value()
{
  "$nmbench" system "$1" --json | sed -n "s/^ *\"$2\": \([0-9.e-]*\),*/\1/p"
}
near() # got wanted tolerance
{
  awk -v a="$1" -v b="$2" -v t="$3" 'BEGIN { exit !(a != "" && a > b * (1 - t) && a < b * (1 + t)) }' ||
    fail "found $1, expected $2"
}
near "$(value 'cent{context=512}' pim)" 0.2283445e-3 0.01
near "$(value 'cent{tp=8,context=512}' pim)" 0.021547e-3 0.03
near "$(value 'cent{tp=8,context=512}' cxl)" 4.2958e-6 0.0001
# more blocks than a device can hold side by side do not gain from an uneven share
near "$(value 'cent{model=llama2-70b,devices=24}' pim)" \
  "$(value 'cent{model=llama2-70b,devices=20}' pim)" 0.000001
awk -v a="$(value 'cent{refresh=true}' pim)" -v b="$(value cent pim)" \
  'BEGIN { exit !(a > b * 1.03 && a < b * 1.1) }' || fail "refresh costs about 6%"
run system 'cent{devices=2,tp=4}'
expect 2 "more shares than devices"
exit $bad
