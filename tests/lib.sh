# SPDX-License-Identifier: GPL-3.0-or-later
# Sourced by the shell tests; they run in the build folder, srcdir is set.
set -u
LC_ALL=C
export LC_ALL
unset NMB_PLUGIN_PATH NMB_DATA_PATH
nmbench=$PWD/nmbench
srcdir=${srcdir:-.}
tmp=$(mktemp -d) || exit 99
trap 'rm -rf "$tmp"' EXIT
bad=0

fail()
{
  echo "FAIL: $*"
  bad=1
}

skip()
{
  echo "skipped: $*"
  exit 77
}

# run ARGUMENT...: of nmbench; leaves $code, $tmp/out, $tmp/err
run()
{
  "$nmbench" "$@" >"$tmp/out" 2>"$tmp/err" </dev/null
  code=$?
}

# expect CODE WHAT: the last run gave that exit code
expect()
{
  [ "$code" = "$1" ] || { fail "$2: exit code $code, expected $1"; cat "$tmp/out" "$tmp/err"; }
}

# says out|err WORDS: the last run said so there
says()
{
  grep -qF -e "$2" "$tmp/$1" || { fail "std$1 does not say: $2"; cat "$tmp/$1"; }
}

silent()
{
  [ ! -s "$tmp/$1" ] || { fail "std$1 is not empty:"; cat "$tmp/$1"; }
}
