#!/usr/bin/env bash
# pyarrow: a transposed matrix as a sparse tensor, and a row of an array of transposed tensors, have values at other places.
set -eu
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
python3 -m venv "$tmp/venv"
"$tmp/venv/bin/pip" install -q pyarrow==26.0.1 numpy==2.4.6
cat >"$tmp/check.py" <<'PY'
import sys

import numpy as np
import pyarrow as pa

SPARSE = (pa.SparseCOOTensor, pa.SparseCSRMatrix, pa.SparseCSCMatrix, pa.SparseCSFTensor)

print("pyarrow", pa.__version__, "numpy", np.__version__)
print("guess: strides say how values lie, so what comes back is equal to what was given, or the call is refused")
matrix = np.arange(6.0).reshape(2, 3)
sparse = {}
for kind in SPARSE:
    for name, given in (("in order", matrix), ("transposed", matrix.T)):
        back = kind.from_dense_numpy(given).to_tensor().to_numpy()
        assert back.shape == given.shape
        sparse[kind, name] = np.array_equal(back, given)
        if not sparse[kind, name]:
            print(f"{kind.__name__}, {name}: given {given.tolist()}, back {back.tolist()}")
print("right as a sparse tensor:", ", ".join(f"{kind.__name__} {name}" for (kind, name), right in sparse.items() if right))

stored = {}
pictures = np.arange(24.0).reshape(2, 3, 4)
for name, given in (("in order", pictures), ("transposed", pictures.transpose(0, 2, 1))):
    array = pa.FixedShapeTensorArray.from_numpy_ndarray(given)
    row = array[0].to_numpy()
    assert row.shape == given[0].shape
    stored[name] = (np.array_equal(array.to_numpy_ndarray(), given), np.array_equal(row, given[0]))
    print(f"two tensors, {name}: the whole array is {'right' if stored[name][0] else 'WRONG'}, its first row"
          f" {'right' if stored[name][1] else f'{row.tolist()} instead of {given[0].tolist()}'}")
as_found = all(right == ((kind, name) != (pa.SparseCOOTensor, "transposed")) for (kind, name), right in sparse.items())
as_found &= stored == {"in order": (True, True), "transposed": (True, False)}
print("as found: shapes are right, and the values lie at other places" if as_found else "CHANGED")
sys.exit(0 if as_found else 1)
PY
cd "$tmp" && "$tmp/venv/bin/python" check.py
