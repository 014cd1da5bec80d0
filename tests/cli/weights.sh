#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# Real models in weight files: logits, greedy text, perplexity as recorded.
. "${srcdir:-.}/tests/lib.sh"
shared=$srcdir/../shared
[ -d "$shared/weights" ] || skip "no models beside the sources"
[ -n "${PYTHON3:=$(command -v /usr/bin/python3 || command -v python3)}" ] || skip "no python3"
echo "stories260K llama256 moe64b gpt2_64 mamba32" | "$PYTHON3" "$srcdir/tests/cli/weights.py" "$nmbench" "$shared" ||
  fail "the numbers differ"
# Machines hold what the files hold: what is left is 16 bit activations, on the fp32 file, too.
for file in "$shared"/weights/llama256/*.gguf "$shared"/weights/*/*-Q*_0.gguf; do
  for machine in gpu-a100 aim-gddr6; do
    run verify "$file" -M $machine --json
    "$PYTHON3" -c '
import json, sys
v = json.load(open(sys.argv[1]))
sys.exit(v["weights"]["rounded"] != 0 or not v["weights"]["held"] or not v["logits"]["kl"] < 1e-3)
' "$tmp/out" || fail "verify $file on $machine: weights are rounded, or values are off"
  done
done
exit $bad
