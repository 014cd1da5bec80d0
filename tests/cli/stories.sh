#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# The model that comes along runs by name: text in, text out, and how well it predicts.
. "${srcdir:-.}/tests/lib.sh"

run generate stories260k -p Once -n 20
expect 0 generate
says out "Once upon a time, there was a little girl named Lily"

# 4.50439478 over 1169 tokens by a program of its own in fp64
run perplexity stories260k --json
expect 0 perplexity
says out '"tokens": 1169'
says out '"perplexity": 4.50439'

run logits stories260k --tokens 1,403,407,261,378
expect 0 logits
says out "0      1   403 17.0235"

run verify stories260k --machine aim-gddr6
expect 0 verify
says out "top-1 agreement 1,"

run list models
grep -q "^stories260k .*with weights" "$tmp/out" || fail "no weights are listed"

run perplexity stories261k
expect 2 "no such weights"
exit $bad
