#!/usr/bin/env bash
# NumPy and dask: the mean of float16 values is computed in float32 by mean() alone; deviations, nanmean and dask's mean are infinite or NaN.
set -eu
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
python3 -m venv "$tmp/venv"
"$tmp/venv/bin/pip" install -q 'dask[array]==2026.8.0' numpy==2.4.6
cat >"$tmp/check.py" <<'PY'
import sys
import warnings

import dask
import dask.array
import numpy as np

SHAPE, CHUNKS = (120, 160, 3), (40, 160, 3)  # a small picture, levels 0 to 255

pixels = (120 + 50 * np.random.default_rng(0).standard_normal(SHAPE)).clip(0, 255).astype(np.float16)
chunked = dask.array.from_array(pixels, chunks=CHUNKS)
wide = pixels.astype(np.float64)
WAYS = {
    "numpy mean": (pixels.mean, wide.mean),
    "numpy nanmean": (lambda: np.nanmean(pixels), wide.mean),
    "numpy average, equal weights": (lambda: np.average(pixels, weights=np.ones_like(pixels)), wide.mean),
    "numpy std": (pixels.std, wide.std),
    "numpy linalg.norm": (lambda: np.linalg.norm(pixels.ravel()), lambda: np.linalg.norm(wide.ravel())),
    "dask mean": (chunked.mean().compute, wide.mean),
    "dask std": (chunked.std().compute, wide.std),
    "numpy std, dtype=float32": (lambda: pixels.std(dtype=np.float32), wide.std),
    "dask mean, dtype=float32": (chunked.mean(dtype=np.float32).compute, wide.mean),
}
print("numpy", np.__version__, "dask", dask.__version__)
print("guess: what mean() does for float16, all statistics do, as their results fit in it")
right, lost = {}, {}  # lost: infinite or NaN, behind a warning
for name, (way, exact) in WAYS.items():
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        value = way()
    right[name] = bool(np.isclose(float(value), exact(), rtol=0.01))
    lost[name] = not np.isfinite(value) and bool(said)
    print(f"{name}: {value:.5g}, exactly {exact():.5g}; {len(said)} warnings")
with np.errstate(all="ignore"):
    normalised = (pixels - pixels.mean()) / pixels.std()
print("largest value of a picture that is normalised by them:", np.abs(normalised).max())
as_found = {name for name, holds in right.items() if holds} == {"numpy mean", "numpy std, dtype=float32", "dask mean, dtype=float32"}
as_found &= all(lost[name] != holds for name, holds in right.items()) and not normalised.any()
print("as found: only NumPy's mean is computed in a wider type" if as_found else "CHANGED")
sys.exit(0 if as_found else 1)
PY
cd "$tmp" && "$tmp/venv/bin/python" check.py
