#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# Small checkpoints as Hugging Face publishes them, of families with routed experts, latent
# attention or states, against evaluations of their own.
. "${srcdir:-.}/tests/lib.sh"
[ -n "${PYTHON3:=$(command -v /usr/bin/python3 || command -v python3)}" ] || skip "no python3"
"$PYTHON3" -c 'import numpy' 2>/dev/null || skip "no numpy"
for kind in moe latent state; do
  mkdir -p "$tmp/$kind"
  PYTHONDONTWRITEBYTECODE=1 "$PYTHON3" "$srcdir/tests/cli/hf_$kind.py" "$nmbench" "$tmp/$kind" || fail "$kind: logits differ"
done
exit $bad
