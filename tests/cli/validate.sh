#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# nmbench validate: the quick rows pass, verdicts, the plot, refusals.
. "${srcdir:-.}/tests/lib.sh"

run validate --quick
expect 0 "the quick rows of the ledger"
says out "SCALE-Sim v2"
grep -q ' fail$\| error$' "$tmp/out" && { fail "a quick row does not pass"; cat "$tmp/out"; }

head='target,source,command,result,published,unit,tolerance,flags,note'
array='systolic --rows 32 --cols 32 -k 128'
{
  echo "$head"
  echo "good,S,$array -m 128 -n 128,cycles,3551,cycle,exact,,"
  echo "ratio,S,$array -m 128 -n 128 / $array -m 128 -n 64,cycles,2,x,1%,,"
  echo "sum,S,$array -m 128 -n 128 + $array -m 128 -n 128,cycles,7102,cycle,exact,,"
  echo "why,S,,,5,ms,5%,,nobody says how"
} >"$tmp/good.csv"
run validate "$tmp/good.csv"
expect 0 "four rows"
says out "not modelled"
says out "nobody says how"
says out "3 pass, 1 not modelled"

{
  echo "$head"
  echo "off,S,$array -m 128 -n 128,cycles,3000,cycle,5%,,"
  echo "doubt,S,$array -m 128 -n 128,cycles,3000,cycle,5%,doubtful,the tool counts a prefetch twice"
  echo "wrong,S,sistolic -m 1,cycles,3000,cycle,5%,,"
  echo "key,S,$array -m 128 -n 128,cycels,3000,cycle,5%,,"
} >"$tmp/bad.csv"
run validate "$tmp/bad.csv" --json
expect 1 "rows that fail"
says out '"verdict": "fail"'
says out '"verdict": "doubt"'
says out "no command 'sistolic'"
says out "no number 'cycels'"

if command -v gnuplot >/dev/null; then
  run validate "$tmp/good.csv" --plot "$tmp/ledger.svg"
  expect 0 "plot"
  [ -s "$tmp/ledger.svg" ] || fail "no plot"
  grep -q "^3551" "$tmp/ledger.dat" || fail "no data beside the plot"
fi
run validate "$tmp/good.csv" --plot "$tmp/ledger.gif"
expect 2 "plot of an unknown kind"
run validate --source systolik
expect 2 "unknown source"
says err "did you mean 'systolic'?"
echo "$head" >"$tmp/wrong.csv"
echo "a,S,c,r,1,ms,exact" >>"$tmp/wrong.csv"
run validate "$tmp/wrong.csv"
expect 2 "too few columns"
says err "wrong.csv:2: error: found 7 columns"
exit $bad
