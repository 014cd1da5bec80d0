#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# Each installed header compiles alone, as C11 and as C++.
. "${srcdir:-.}/tests/lib.sh"
cc=${CC:-cc}
cxx=${CXX:-c++}
flags="-I$srcdir/include -Wall -Wextra -Wpedantic -Werror -fsyntax-only"

for h in "$srcdir"/include/nmbench/*.h; do
  name=nmbench/$(basename "$h")
  printf '#include "%s"\n#include "%s"\nextern int nothing;\n' "$name" "$name" >"$tmp/alone.c"
  $cc -std=c11 $flags "$tmp/alone.c" || fail "$name as C11"
  cp "$tmp/alone.c" "$tmp/alone.cc"
  if command -v ${cxx%% *} >/dev/null; then
    $cxx -std=c++11 $flags "$tmp/alone.cc" || fail "$name as C++"
  fi
done
exit $bad
