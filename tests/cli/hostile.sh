#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# Hostile weight files: each is refused in one line that says what is wrong where.
. "${srcdir:-.}/tests/lib.sh"
[ -n "${PYTHON3:=$(command -v /usr/bin/python3 || command -v python3)}" ] || skip "no python3"
PYTHONDONTWRITEBYTECODE=1
OPENBLAS_NUM_THREADS=1
export PYTHONDONTWRITEBYTECODE OPENBLAS_NUM_THREADS
"$PYTHON3" "$srcdir/tests/cli/hostile.py" "$nmbench" "$tmp" || fail "hostile files"
for command in "logits stories260k --tokens 1" "generate stories260k --tokens 1 -n 2" "model stories260k"; do
  [ -e /dev/full ] || break
  "$nmbench" $command >/dev/full 2>"$tmp/err"
  code=$?
  expect 6 "$command into a full disk"
  says err "cannot write to standard output"
done
exit $bad
