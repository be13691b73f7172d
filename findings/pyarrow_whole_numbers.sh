#!/usr/bin/env bash
# pyarrow: a list of Python floats becomes whole numbers by cutting, where the same numbers of NumPy, and a cast, are refused.
set -eu
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
python3 -m venv "$tmp/venv"
"$tmp/venv/bin/pip" install -q numpy==2.4.6 pyarrow==26.0.1
cat >"$tmp/check.py" <<'PY'
import sys

import numpy as np
import pyarrow as pa

print("numpy", np.__version__, "pyarrow", pa.__version__)
print("guess: safe conversion is the default, so 1.5 is refused as an int64 however it is given")
ways = {
    "list of floats": lambda: pa.array([1.5, -2.9], pa.int64()),
    "list of lists": lambda: pa.array([[1.5, -2.9]], pa.list_(pa.int32())).flatten(),
    "column of a table": lambda: pa.table({"x": [1.5, -2.9]}, schema=pa.schema([("x", pa.int64())]))["x"],
    "rows of a table": lambda: pa.Table.from_pylist([{"x": 1.5}, {"x": -2.9}], schema=pa.schema([("x", pa.int64())]))["x"],
    "NumPy array": lambda: pa.array(np.array([1.5, -2.9]), pa.int64()),
    "cast": lambda: pa.array([1.5, -2.9]).cast(pa.int64()),
}
seen = {}
for name, way in ways.items():
    try:
        seen[name] = way().to_pylist()
    except pa.ArrowInvalid as error:
        seen[name] = "refused"
    print(f"{name}: {seen[name]}")
cut = [1, -2]
as_found = list(seen.values()) == [cut, cut, cut, cut, "refused", "refused"]
print("as found: cut without a word" if as_found else "CHANGED")
sys.exit(0 if as_found else 1)
PY
cd "$tmp" && "$tmp/venv/bin/python" check.py
