#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# --help, man page and bash completion tell of the same commands and options.
. "${srcdir:-.}/tests/lib.sh"

run --help
expect 0 help
silent err
commands=$(sed -n '/^Commands:/,/^$/s/^  \([a-z][a-z-]*\) .*/\1/p' "$tmp/out")
[ -n "$commands" ] || fail "no commands in --help"
[ -s man/nmbench.1 ] || fail "man/nmbench.1 was not made"
[ -s man/completion/nmbench ] || fail "man/completion/nmbench was not made"

# the options of command $1 in the man page
man_options()
{
  sed -n "/^\.SS nmbench $1\( \|\$\)/,/^\.S[SH] /{
    /^\.S[SH] /!{ s/\\\\-/-/g; s/\\\\f[BRI]//g; s/^\(-., \)\{0,1\}\(--[a-z-]*\).*/\2/p
    }
  }" man/nmbench.1 | sort
}

for c in $commands; do
  run "$c" --help
  expect 0 "$c --help"
  silent err
  sed -n 's/^  \(-., \|    \)\(--[a-z-]*\).*/\2/p' "$tmp/out" | sort >"$tmp/help"
  man_options "$c" >"$tmp/man"
  cmp -s "$tmp/help" "$tmp/man" || { fail "$c: --help and man page differ"; diff "$tmp/help" "$tmp/man"; }
  sed -n "/^    $c)\$/,/^    [a-z]*)\$/p" man/completion/nmbench | grep -o -e '--[a-z][a-z-]*' | sort -u >"$tmp/all"
  for o in $(cat "$tmp/help"); do
    grep -qx -e "$o" "$tmp/all" || fail "$c: no completion of $o"
  done
  awk 'length > 80 {print; bad = 1} END {exit bad}' "$tmp/out" || fail "$c --help has lines over 80 columns"
  grep -q '[a-z]' "$tmp/out" || fail "$c --help is empty"
done

bash -n man/completion/nmbench || fail "completion is not bash"
bash -c '. man/completion/nmbench; COMP_WORDS=(nmbench sh); COMP_CWORD=1; _nmbench
  [[ " ${COMPREPLY[*]} " == *" show "* ]]' || fail "'nmbench sh' completes to 'show'"
if command -v man >/dev/null; then
  MANROFFSEQ='' man --warnings -E UTF-8 -l -Tutf8 -Z man/nmbench.1 2>"$tmp/err" >/dev/null
  silent err
fi

# nmbench-experiment(5) has every key of the page that it is made from
page=man/nmbench-experiment.5
[ -s $page ] || fail "$page was not made"
sed -n 's/^| `\([a-z]*\)`.*/\1/p' "$srcdir/docs/experiment.md" | while read -r key; do
  grep -A 1 '^\.TP' $page | grep -q "fB$key" || echo "$key"
done >"$tmp/missing"
[ -s "$tmp/missing" ] && fail "$page lacks $(cat "$tmp/missing")"
if command -v man >/dev/null; then
  MANROFFSEQ='' man --warnings -E UTF-8 -l -Tutf8 -Z $page 2>"$tmp/err" >/dev/null
  silent err
fi
exit $bad
