#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# Every machine has a page: diagram, the source of each value, what is not modelled.
. "${srcdir:-.}/tests/lib.sh"

"$nmbench" list machines | sed 's/ .*//' >"$tmp/machines"
[ "$(wc -l <"$tmp/machines")" -ge 20 ] || fail "too few machines"
while read -r m; do
  run show "$m" --page
  expect 0 "page of $m"
  silent err
  says out "## Block diagram"
  says out "Source of these values: "
  grep -A 1 '^## What is not modelled' "$tmp/out" | grep -q 'Not modelled: ..' || fail "$m: nothing is not modelled?"
  engines=$(grep -c '^### \(Engine\|Link\|Memory\|Local memory\) ' "$tmp/out")
  sources=$(grep -c '^Source of these values: ..' "$tmp/out")
  [ "$engines" = "$sources" ] || fail "$m: $engines tables, $sources sources"
done <"$tmp/machines"

run show aim-gddr6 --page
says out "in its banks: [pim] dram-pim"
says out "| rcd | 56 |"
exit $bad
