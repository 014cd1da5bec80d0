#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# In-memory engines read every byte of a weight as often as the mapping says: once for
# each vector.  Commands of a channel x what one reads in all channels = bytes.
. "${srcdir:-.}/tests/lib.sh"

commands() # NAME: how often, from the last run's JSON
{
  sed -n "s/^ *\"$1\": \([0-9]*\),*\$/\1/p" "$tmp/out" | head -1
}

# machine, column command, bytes that it reads in one channel, channels
while read -r machine command bytes channels; do
  for shape in '4096 1024 1' '4096 4096 1' '8192 2048 3'; do
    set -- $shape
    run op "gemv out=$1 in=$2 batch=$3 dtype=fp16" -M "$machine" --json
    expect 0 "$machine $shape"
    got=$(($(commands "$command") * bytes * channels))
    [ "$got" = $(($1 * $2 * $3 * 2)) ] ||
      fail "$machine, $shape: $command read $got bytes, expected $(($1 * $2 * $3 * 2))"
  done
done <<'EOF'
aim-gddr6 MAC16 512 32
hbm2-pim MACAB 256 64
npu-hbm-pim COMPS_READRES 32768 32
hbm3-attacc-stack MACAB 2048 16
hbm3-attacc-stack+group MACSB 512 16
hbm3-attacc-stack+buffer MACPB 64 16
EOF

# Columns of a filled buffer share it, but each weight is still read once.
run op 'gemv out=4096 in=4096 dtype=fp16' -M aim-gddr6 --set reuse=1 --json
[ "$(commands MAC16)" = 2048 ] || fail "reuse=1: $(commands MAC16) MAC16"

# Caches: keys and values of every head once (all banks of a pseudo-channel pair hold one)
run op 'attention heads=16 kv_len=2048 head_dim=128 dtype=fp16' -M hbm3-attacc-stack --json
[ "$(commands MACAB)" = 512 ] || fail "attention: $(commands MACAB) MACAB"

# States: read and written once by units of eight pairs of banks in 160 channels
run op 'state heads=80 values=64 keys=128 batch=32 dtype=mx8' -M gpu-a100-pimba --json
expect 0 "state"
[ $(($(commands COMP) * 8 * 32 * 160)) = $((80 * 64 * 128 * 32)) ] ||
  fail "state: $(commands COMP) COMP"
exit $bad
