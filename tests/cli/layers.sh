#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# base <- ir <- {frontend, passes, hwsim} <- harness; a plugin includes nothing of
# ours but nmbench/*.h; hdf5.h is included by the store alone.
. "${srcdir:-.}/tests/lib.sh"
cd "$srcdir" || exit 99

# may FOLDER ALLOWED...: files there include ours only from these folders
may()
{
  where=$1
  shift
  allowed="^nmbench/|^config\.h\$"
  for folder in "$@"; do
    allowed="$allowed|^$folder/"
  done
  find "$where" -name '*.[ch]' 2>/dev/null | sort | while read -r f; do
    sed -n 's/^ *# *include *"\([^"]*\)".*/\1/p' "$f" | grep -Ev "$allowed" | sed "s|^|$f includes |"
  done
}
{
  may include/nmbench
  may base base
  may ir base ir
  may frontend base ir frontend
  may passes
  may harness base ir frontend harness
  grep -ln 'NMB_PLUGIN {' hwsim/*.c 2>/dev/null | while read -r f; do
    may "$f"
  done
  may hwsim base ir hwsim
  grep -l '# *include *[<"]hdf5' -r base ir frontend passes hwsim harness --include='*.[ch]' |
    grep -v '^harness/store\.c$' | sed 's/$/ includes hdf5.h/'
  # no pass is named by the host
  for plugin in passes/*/*.c; do
    name=$(sed -n 's/^ *\.name = "\([^"]*\)".*/\1/p' "$plugin" 2>/dev/null | head -n 1)
    [ -n "$name" ] && grep -n "\"$name\"" base/*.c ir/*.c frontend/*.c harness/*.c 2>/dev/null |
      sed "s/\$/  <- the host names plugin $name/"
  done
} >"$tmp/found"
[ ! -s "$tmp/found" ] || fail "$(cat "$tmp/found")"
exit $bad
