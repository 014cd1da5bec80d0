#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# Checkpoints of dense families as Hugging Face publishes them, written and evaluated by
# programs of their own.
. "${srcdir:-.}/tests/lib.sh"
[ -n "${PYTHON3:=$(command -v /usr/bin/python3 || command -v python3)}" ] || skip "no python3"
"$PYTHON3" -c 'import numpy' 2>/dev/null || skip "no numpy"
PYTHONDONTWRITEBYTECODE=1
OPENBLAS_NUM_THREADS=1
export PYTHONDONTWRITEBYTECODE OPENBLAS_NUM_THREADS
parts_run() {
  for part in "$@"; do
    mkdir -p "$tmp/$part"
    "$PYTHON3" "$srcdir/tests/cli/$part.py" "$nmbench" "$tmp/$part" || fail "$part: logits differ"
  done
  return "$bad"
}
# two at a time: these are among the longest of the tests
parts_run hf_dense &
other=$!
parts_run hf_gpt hf_wrapped hf_gemma
wait "$other" || bad=1
exit $bad
