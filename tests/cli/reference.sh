#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# The reduced experiment gives the bits that are kept in results/, and its figures.
. "${srcdir:-.}/tests/lib.sh"
kept=$srcdir/results/moe-small.h5
[ -s "$kept" ] || { fail "$kept is missing"; exit $bad; }

run run "$srcdir/experiments/moe-small.cfg" -o "$tmp/small.h5" -j 2 --progress none
expect 0 "run moe-small"
run compare "$kept" "$tmp/small.h5"
expect 0 "moe-small gives what results/ keeps"

# figures from the kept file alone, without the experiment file
command -v gnuplot >/dev/null || { echo "no gnuplot: figures are not drawn"; exit $bad; }
run plot "$kept" -o "$tmp/figures/deep"
expect 0 "plot"
silent err
for name in $(sed -n 's/^ *{ name = "\([a-z]*\)"; kind = .*/\1/p' "$srcdir/experiments/moe-small.cfg"); do
  for ext in dat gp pdf svg png; do
    [ -s "$tmp/figures/deep/$name.$ext" ] || fail "$name.$ext was not made"
  done
  says out "$name.pdf"
  grep -q "$tmp" "$tmp/figures/deep/$name.gp" && fail "$name.gp holds an absolute path"
  head -n 1 "$tmp/figures/deep/$name.dat" | grep -q "^# $name: " || fail "$name.dat has no head"
done
# the script draws by itself, elsewhere
mkdir "$tmp/moved" && cp "$tmp/figures/deep/gap.gp" "$tmp/figures/deep/gap.dat" "$tmp/moved"
(cd "$tmp/moved" && gnuplot gap.gp 2>/dev/null) || fail "gap.gp does not run on its own"
cmp -s "$tmp/moved/gap.svg" "$tmp/figures/deep/gap.svg" || fail "gap.svg differs when drawn again"

run plot "$kept" -o "$tmp/one" --only gap
expect 0 "plot --only"
[ -s "$tmp/one/gap.pdf" ] && [ ! -e "$tmp/one/speedup.pdf" ] || fail "--only draws one figure"
run plot "$kept" -o "$tmp/one" --only gip
expect 2 "plot --only of an unknown figure"
says err "did you mean 'gap'?"

# without gnuplot: a message, the data and the scripts
path=$PATH
PATH=/nonexistent
"$nmbench" plot "$kept" -o "$tmp/bare" >"$tmp/out" 2>"$tmp/err" </dev/null
code=$?
PATH=$path
expect 1 "plot without gnuplot"
says err "gnuplot is not installed"
[ -s "$tmp/bare/gap.gp" ] && [ -s "$tmp/bare/gap.dat" ] || fail "no data without gnuplot"
[ ! -e "$tmp/bare/gap.pdf" ] || fail "a PDF without gnuplot"

run plot "$kept" -o /dev/null/x
expect 2 "plot into a folder that cannot be"
says err "cannot be made"
exit $bad
