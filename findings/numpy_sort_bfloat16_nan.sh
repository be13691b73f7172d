#!/usr/bin/env bash
# NumPy with ml_dtypes: one NaN leaves a bfloat16 array unsorted; unique and partition go wrong too.
set -eu
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
python3 -m venv "$tmp/venv"
"$tmp/venv/bin/pip" install -q numpy==2.4.6 ml_dtypes==0.6.0
cat >"$tmp/check.py" <<'PY'
import sys

import ml_dtypes
import numpy as np

print("numpy", np.__version__, "ml_dtypes", ml_dtypes.__version__)
print("guess: a NaN goes to the end, the finite numbers before it are sorted, as in float32 and float16")
values = np.array([3, np.nan, 1, 2, np.nan, 0, 1, 2], np.float32)
seen = {}
for dtype in (np.float32, np.float16, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn):
    array = values.astype(dtype)
    ordered = np.sort(array).astype(np.float32)
    unique = np.unique(array).astype(np.float32)
    finite = ordered[np.isfinite(ordered)]
    seen[np.dtype(dtype).name] = bool(np.all(np.diff(finite) >= 0) and len(unique) == 5)
    print(f"{np.dtype(dtype).name}: sort {ordered.tolist()}, unique {unique.tolist()}")
    largest = np.partition(array, len(array) - 4).astype(np.float32)[-4:]
    print(f"  four largest by partition: {largest.tolist()}")
clean = np.sort(values[np.isfinite(values)].astype(ml_dtypes.bfloat16)).astype(np.float32).tolist()
print("bfloat16 without NaN:", clean)
as_found = list(seen.values()) == [True, True, False, False] and clean == [0, 1, 1, 2, 2, 3]
print("as found: unsorted, no error" if as_found else "CHANGED")
sys.exit(0 if as_found else 1)
PY
cd "$tmp" && "$tmp/venv/bin/python" check.py
