#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# Real models in weight files: logits, greedy text, perplexity as recorded.
. "${srcdir:-.}/tests/lib.sh"
shared=$srcdir/../shared
[ -d "$shared/weights" ] || skip "no models beside the sources"
[ -n "${PYTHON3:=$(command -v /usr/bin/python3 || command -v python3)}" ] || skip "no python3"
echo "stories260K llama256 moe64b gpt2_64 mamba32" | "$PYTHON3" "$srcdir/tests/cli/weights.py" "$nmbench" "$shared" ||
  fail "the numbers differ"
exit $bad
