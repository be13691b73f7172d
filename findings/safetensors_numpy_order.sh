#!/usr/bin/env bash
# safetensors: a transposed NumPy array is saved in the order of its memory, under the transposed shape.
set -eu
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
python3 -m venv "$tmp/venv"
"$tmp/venv/bin/pip" install -q safetensors==0.8.0 numpy==2.4.6
cat >"$tmp/check.py" <<'PY'
import sys
from importlib.metadata import version

import numpy as np
from safetensors.numpy import load_file, save_file

print("safetensors", version("safetensors"), "numpy", np.__version__)
print("guess: what is saved is read back, or refused, as the PyTorch side refuses tensors that are not contiguous")
kernel = np.arange(6, dtype=np.float32).reshape(2, 3)  # (in, out), as JAX and Keras have it
arrays = {
    "as made": kernel,
    "transposed to (out, in)": kernel.T,
    "made contiguous behind it": np.ascontiguousarray(kernel.T),
    "column-major, as from SciPy's and LAPACK's routines": np.asfortranarray(kernel),
    "transposed and big-endian": kernel.T.astype(">f4"),
    "picture's axes moved": np.moveaxis(np.arange(24, dtype=np.float32).reshape(2, 3, 4), -1, 0),
    "one column wide": kernel[:, :1].copy().T,
}
seen = {}
for name, array in arrays.items():
    save_file({"weight": array}, "weights.safetensors")
    back = load_file("weights.safetensors")["weight"]
    assert back.shape == array.shape and back.sum() == array.sum() and np.linalg.norm(back) == np.linalg.norm(array)
    seen[name] = bool((back == array).all())
    print(f"{name}: {'the same values' if seen[name] else 'other values'} are read back; shape, sum and norm are right")
save_file({"weight": kernel.T}, "weights.safetensors")
print("saved", kernel.T.tolist(), "read", load_file("weights.safetensors")["weight"].tolist())
as_found = list(seen.values()) == [True, False, True, False, False, False, True]
print("as found: the values are there, at other places" if as_found else "CHANGED")
sys.exit(0 if as_found else 1)
PY
cd "$tmp" && "$tmp/venv/bin/python" check.py
