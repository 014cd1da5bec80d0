#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# Files of many architectures and stored forms, written and evaluated by programs of their own.
. "${srcdir:-.}/tests/lib.sh"
[ -n "${PYTHON3:=$(command -v /usr/bin/python3 || command -v python3)}" ] || skip "no python3"
"$PYTHON3" -c 'import numpy' 2>/dev/null || skip "no numpy"
# libtool's wrapper takes twice the time of the program, which runs some 150 times
if [ -x "$PWD/.libs/nmbench" ]; then
  nmbench=$PWD/.libs/nmbench
  LD_LIBRARY_PATH=$PWD/.libs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
  export LD_LIBRARY_PATH
fi
mkdir -p "$tmp/gguf" "$tmp/stored"
PYTHONDONTWRITEBYTECODE=1 "$PYTHON3" "$srcdir/tests/cli/archs.py" "$nmbench" "$tmp/gguf" || fail "logits differ"
PYTHONDONTWRITEBYTECODE=1 "$PYTHON3" "$srcdir/tests/cli/stored.py" "$nmbench" "$tmp/stored" || fail "logits differ"
mkdir -p "$tmp/tokens"
PYTHONDONTWRITEBYTECODE=1 "$PYTHON3" "$srcdir/tests/cli/tokens.py" "$nmbench" "$tmp/tokens" || fail "tokens differ"
exit $bad
