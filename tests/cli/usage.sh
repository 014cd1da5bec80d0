#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# Wrong usage gives one line with the nearest name, and exit code 2.
. "${srcdir:-.}/tests/lib.sh"

one_line()
{
  [ "$(wc -l <"$tmp/err")" = 1 ] || { fail "expected one line of message, found:"; cat "$tmp/err"; }
}

run --version
expect 0 version
says out "nmbench "
silent err

run lst
expect 2 "unknown command"
says err "did you mean 'list'?"
silent out
one_line

run --versoin
expect 2 "unknown option"
says err "did you mean '--version'?"
one_line

run
expect 2 "no command"
one_line

run list --jsno
expect 2 "unknown option of a command"
says err "did you mean '--json'?"
one_line

run list --json=yes
expect 2 "value for a switch"
one_line

run show
expect 2 "too few arguments"
one_line

run show a b
expect 2 "too many arguments"
says err "found argument 'b'"
one_line

run list pases
expect 2 "unknown kind"
says err "did you mean 'passes'?"

run show fuse-non
expect 2 "unknown name"
says err "did you mean 'fuse-none'?"
one_line

run show mixtral-8x7b
expect 0 "start of a model's name"
says out "mixtral-8x7b-v0.1"

run show moe-small
expect 0 "an experiment's name"
says out "cells: "

run show 'fuse-none{depth=3}'
expect 2 "option that does not exist"
says err "pass 'fuse-none' has no options, found 'depth'"

run show 'fuse-none,,fuse-none'
expect 2 "empty stage"

run show 'fuse-none{'
expect 2 "open brace"
says err "do not match"

# facts that cannot be written are not lost in silence
if [ -w /dev/full ]; then
  "$nmbench" list >/dev/full 2>"$tmp/err"
  code=$?
  expect 6 "full disk"
  says err "cannot write to standard output"
fi
exit $bad
