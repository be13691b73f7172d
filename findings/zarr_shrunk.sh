#!/usr/bin/env bash
# Zarr, TensorStore: what an array was cut down by comes back when it grows, from the rest of its last chunk.
set -eu
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
python3 -m venv "$tmp/venv"
"$tmp/venv/bin/pip" install -q zarr==3.1.6 tensorstore==0.1.86 h5py==3.16.0 numpy==2.4.6
cat >"$tmp/check.py" <<'PY'
import sys
from importlib.metadata import version

import h5py
import numpy as np
import tensorstore
import zarr

CHUNK, WENT_BACK_TO, SECOND = 8, 5, 2
first = np.arange(1, 11, dtype="float32")  # the losses of ten steps
again = np.full(SECOND, 100, "float32")    # two of the steps that were made anew, behind step 5


def rolled_back(array, resize):
    """Ten steps, back to the fifth, two made anew, and room for ten once more."""
    array[:] = first
    array = resize(array, WENT_BACK_TO)
    array = resize(array, WENT_BACK_TO + SECOND)
    array[WENT_BACK_TO:] = again
    return np.array(resize(array, len(first))[:])


def by_zarr(path, **more):
    def resize(array, size):
        array.resize((size,))
        return array
    return rolled_back(zarr.create_array(path, shape=first.shape, dtype="float32", fill_value=np.nan, **more), resize)


def by_hdf5(path):
    def resize(array, size):
        array.resize((size,))
        return array
    with h5py.File(path, "w") as file:
        return rolled_back(file.create_dataset("loss", first.shape, "float32", maxshape=(None,), chunks=(CHUNK,), fillvalue=np.nan), resize)


def by_tensorstore(path):
    array = tensorstore.open({"driver": "zarr3", "kvstore": {"driver": "file", "path": path}}, create=True, dtype=tensorstore.float32,
                             shape=first.shape, chunk_layout=tensorstore.ChunkLayout(chunk_shape=[CHUNK]), fill_value=np.nan).result()
    return rolled_back(array, lambda array, size: array.resize(exclusive_max=[size]).result())


print("zarr", zarr.__version__, "tensorstore", version("tensorstore"), "h5py", h5py.__version__)
print("guess: steps that an array was cut down by are gone; grown again, it holds its fill value there, NaN")
seen = {
    "HDF5": by_hdf5("log.h5"),
    "Zarr": by_zarr("log.zarr", chunks=(CHUNK,)),
    "Zarr, shards": by_zarr("shards.zarr", chunks=(CHUNK // 2,), shards=(CHUNK,)),
    "Zarr, format 2": by_zarr("log2.zarr", chunks=(CHUNK,), zarr_format=2),
    "TensorStore": by_tensorstore("log3.zarr/"),
}
kept = np.concatenate([first[:WENT_BACK_TO], again])
nothing = np.full(len(first) - len(kept), np.nan)
back = np.concatenate([first[len(kept) : CHUNK], np.full(len(first) - CHUNK, np.nan)])
as_found = True
for name, values in seen.items():
    print(f"{name}: {values.tolist()}")
    as_found &= np.array_equal(values, np.concatenate([kept, nothing if name == "HDF5" else back]), equal_nan=True)
print("as found: what the last chunk held beyond the end comes back" if as_found else "CHANGED")
sys.exit(0 if as_found else 1)
PY
cd "$tmp" && "$tmp/venv/bin/python" check.py 2>log || { tail -20 log; exit 1; }
