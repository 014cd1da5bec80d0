#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# Other programs read the results: h5dump, h5py, xarray with both of its engines.
. "${srcdir:-.}/tests/lib.sh"
. "$srcdir/tests/cli/sweep.sh"
python=/usr/bin/python3
[ -x "$python" ] || python=python3
$python -c 'import h5py, xarray, netCDF4, h5netcdf' 2>/dev/null || skip "python3-xarray, -h5py, -netcdf4, -h5netcdf are not all there"
small "$tmp/s.cfg"
run run "$tmp/s.cfg" -q -j 1 -o "$tmp/a.h5"
expect 0 "run -j 1"
run run "$tmp/s.cfg" -q -j 2 -o "$tmp/b.h5"
expect 0 "run -j 2"
"$nmbench" export --json "$tmp/a.h5" >"$tmp/a.json" || fail "export"
$python "$srcdir/tests/cli/hdf5.py" "$tmp/a.h5" "$tmp/b.h5" "$tmp/a.json" || fail "hdf5.py"
if command -v h5dump >/dev/null; then
  h5dump -H "$tmp/a.h5" >"$tmp/dump" || fail "h5dump -H"
  grep -q 'DATASET "time_by_engine_cause"' "$tmp/dump" || fail "h5dump shows no time_by_engine_cause"
fi
exit $bad
