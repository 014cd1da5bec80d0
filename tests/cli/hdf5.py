# SPDX-License-Identifier: GPL-3.0-or-later
"""usage: hdf5.py A.h5 B.h5 A.json: A and B are one experiment run with -j 1 and -j 2,
A.json is nmbench's own export of A."""
import json
import sys

import h5py
import numpy as np
import xarray as xr

a, b, exported = sys.argv[1:]
with open(exported) as f:
    want = json.load(f)
n = len(want["cells"])
bad = 0


def check(ok, what):
    global bad
    if not ok:
        print("FAIL:", what)
        bad = 1


for engine in ("netcdf4", "h5netcdf"):
    with xr.open_dataset(a, engine=engine) as d:
        check(d.sizes["cell"] == n, f"{engine}: {d.sizes['cell']} cells, not {n}")
        check(d.attrs["title"] == want["title"], f"{engine}: title")
        check("nmbench-1" in d.attrs["Conventions"], f"{engine}: Conventions")
        for name in ("latency", "bound", "gap", "throughput"):
            col = d[name]
            check(col.dims == ("cell",), f"{engine}: {name} has dims {col.dims}")
            check(col.attrs["units"] == want["columns"][name]["unit"], f"{engine}: unit of {name}")
            check(col.attrs["long_name"] != "", f"{engine}: long_name of {name}")
            values = [c[name] for c in want["cells"]]
            check(list(col.values) == values, f"{engine}: values of {name}")
        check(d["latency"].attrs["better"] == "less", f"{engine}: better")
        for name in ("model", "pipeline", "status"):
            check(list(d[name].values) == [c[name] for c in want["cells"]], f"{engine}: {name}")
        check(d["batch"].dtype == np.int64, f"{engine}: batch is {d['batch'].dtype}")
        time = d["time_by_engine_cause"]
        check(time.dims == ("cell", "engine", "cause"), f"{engine}: dims {time.dims}")
        total = time.sum(["cause"]).sel(engine="gpu")
        check(np.allclose(total, d["latency"], rtol=1e-9), f"{engine}: causes add up to the latency")
        one = want["cells"][5]["time_by_engine_cause"]["gpu"]["bus"]
        check(float(time[5].sel(engine="gpu", cause="bus")) == one, f"{engine}: by label")
        names = list(d.variables)
        check(names.index("model") < names.index("latency") < names.index("gap"),
              f"{engine}: columns do not stand as they were written")
        check(not any("phony" in str(k) for k in d.dims), f"{engine}: phony dimensions")
        frame = d[["model", "pipeline", "batch", "latency"]].to_dataframe()
        check(len(frame) == n, f"{engine}: to_dataframe")
    with xr.open_dataset(a, group="host", engine=engine) as h:
        check(h["compile_time"].sizes["cell"] == n, f"{engine}: host times")
        check(h["compile_time"].attrs["units"] == "s", f"{engine}: unit of host times")
        check(not any(v in h for v in ("latency", "key")), f"{engine}: results among host times")
    with xr.open_dataset(a, group="provenance", engine=engine) as p:
        for name in ("config", "argv", "host", "compiler", "plugins", "created", "nmbench"):
            check(p.attrs.get(name), f"{engine}: provenance has no {name}")

# what does not depend on the host has the same bytes, stored alike
with h5py.File(a) as x, h5py.File(b) as y:
    names = list(x)
    check(names == list(y), "columns in another order")
    for name in names:
        if isinstance(x[name], h5py.Group):
            continue
        u, v = x[name][()], y[name][()]
        same = (list(u.flat) == list(v.flat)) if u.dtype == object else u.tobytes() == v.tobytes()
        check(same, f"{name} differs between -j 1 and -j 2")
        check(x[name].chunks == y[name].chunks, f"{name} is stored in another way")
    for name in x["provenance"].attrs:
        check(isinstance(x["provenance"].attrs[name], str), f"attribute {name} is no text")
sys.exit(bad)
