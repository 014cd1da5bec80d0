#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# The commands that run models, as a script calls them: options that do not fit, and JSON
# in any case.
. "${srcdir:-.}/tests/lib.sh"

# what fails is JSON too, with the reason
json() {
  "${PYTHON3:-python3}" -c "import json, sys; v = json.load(open('$tmp/out')); sys.exit(not ($1))" ||
    fail "$2: $(head -c 300 "$tmp/out")"
}
[ -n "${PYTHON3:=$(command -v /usr/bin/python3 || command -v python3)}" ] || skip "no python3"

run logits stories260k --tokens 1,403 --json
expect 0 logits
json "len(v['logits']) == 2 and len(v['logits'][1]) == 512 and v['tokens'] == [1, 403]" "shape of logits"
cp "$tmp/out" "$tmp/first"
run logits stories260k --tokens "[1, 403]" --json
cmp -s "$tmp/out" "$tmp/first" || fail "brackets and spaces change the logits"
echo "1,403" > "$tmp/ids"
nmbench_in=$tmp/ids
"$nmbench" logits stories260k --tokens - --json < "$nmbench_in" > "$tmp/out" || fail "ids of standard input"
cmp -s "$tmp/out" "$tmp/first" || fail "ids of standard input change the logits"

for list in "" , 1, ,1 1,,2 1.5 x -1 99999999999 512 "[1" "1]" "1 2 x"; do
  run logits stories260k --tokens "$list" --json
  expect 2 "ids '$list'"
  json "v['status'] == 'badinput' and v['error']" "ids '$list'"
done
run logits stories260k --json
expect 2 "no ids"
json "'--tokens is needed' in v['error']" "no ids"
run logits stories260k --tokens 1 -p fuse-none
expect 2 "a pipeline without a machine"
says err "name one with --machine"
run logits stories260k --tokens 1 --machine nowhere --json
expect 2 "unknown machine"
json "'nowhere' in v['error']" "unknown machine"
run logits stories260k --tokens 1 --machine aim-gddr6 -p fuse-none
expect 2 "a pipeline that ends early"
says err "must end with an emit pass"
run logits mixtral-8x7b --tokens 1
expect 2 "a model without weights"
says err "has no weights here"
run logits nosuchthing --tokens 1
expect 2 "no such model"
says err "found no file 'nosuchthing'"
run verify nosuchthing --json
expect 2 "no such model"
json "'nosuchthing' in v['error']" "no such model"
run perplexity stories260k --tokens 1,9999 --json
expect 2 "perplexity"
json "v['status'] == 'badinput'" "perplexity"
run model stories260k nosuchthing --json
expect 2 "one of two models"
json "v[0]['name'] == 'stories260k' and 'nosuchthing' in v[1]['error']" "one of two models"

# the same seed gives the same text; what is sampled from is what the options leave
run generate stories260k -p Once -n 12 --temperature 1.2 --seed 5 --json
expect 0 sampling
cp "$tmp/out" "$tmp/first"
run generate stories260k -p Once -n 12 --temperature 1.2 --seed 5 --json
cmp -s "$tmp/out" "$tmp/first" || fail "the same seed gives another text"
run generate stories260k -p Once -n 12 --temperature 1.2 --seed 6 --json
cmp -s "$tmp/out" "$tmp/first" && fail "another seed gives the same text"
run generate stories260k -p Once -n 12 --json
cp "$tmp/out" "$tmp/first"
for only in "--top-k 1" "--top-p 0.000001"; do
  run generate stories260k -p Once -n 12 --temperature 1.2 --seed 5 $only --json
  cmp -s "$tmp/out" "$tmp/first" || fail "$only is not greedy"
done
run generate stories260k -p Once -n 0
expect 0 "no tokens"
says out "Once"
run generate stories260k -p Once --tokens 1,403
expect 2 "two prompts"
run generate stories260k -p Once -n 520
expect 0 "beyond the context"
says err "beyond the context of 512"
for wrong in "-n -1" "--temperature -1" "--top-k -1" "--top-p 0" "--top-p 1.5" "--tokens 1,600"; do
  run generate stories260k $wrong --json
  expect 2 "$wrong"
  json "v['status'] and v['error']" "$wrong"
done
run generate stories260k -p Once -n 4 --machine aim-gddr6 --json
expect 0 "on a machine"
json "v['machine'] == 'aim-gddr6' and v['simulated_tokens_per_second'] > 0 and len(v['tokens']) == 4" "on a machine"
exit $bad
