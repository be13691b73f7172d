#!/usr/bin/env bash
# Keras on PyTorch: affine_transform exchanges rows and columns in the caller's matrix, so a picture's mask is moved another way.
set -eu
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
python3 -m venv "$tmp/venv"
"$tmp/venv/bin/pip" install -q keras==3.15.1 jax==0.10.2 jaxlib==0.10.2 torch==2.13.0 numpy==2.4.6
cat >"$tmp/check.py" <<'PY'
import os
import subprocess
import sys

if len(sys.argv) == 1:
    print("guess: one matrix moves a picture and its mask alike, with each of Keras' back ends")
    outcomes = {name: subprocess.run([sys.executable, sys.argv[0], name], env=dict(os.environ, KERAS_BACKEND=name)).returncode for name in ("jax", "torch")}
    as_found = outcomes == {"jax": 10, "torch": 11}
    print("as found: the second call turns the shift, and the third turns it back" if as_found else f"CHANGED: {outcomes}")
    sys.exit(0 if as_found else 1)

import keras
import numpy as np

print("keras", keras.__version__, "on", keras.backend.backend())
ops = keras.ops
picture = np.arange(1, 21, dtype=np.float32).reshape(1, 4, 5, 1)
values = np.array([[1, 0, 1, 0, 1, 2, 0, 0]], np.float32)  # one column to the left, two rows up
matrix = ops.convert_to_tensor(values.copy())
moved = [ops.convert_to_numpy(ops.image.affine_transform(picture, matrix)) for _ in range(3)]  # picture, mask and weight map
for number, array in enumerate(moved, 1):
    print(f"call {number}, rows:", array[0, :, :, 0].astype(int).tolist())
assert (ops.convert_to_numpy(matrix) == values).all() or keras.backend.backend() == "torch"
of_numpy = values.copy()
for _ in range(2):
    assert (ops.convert_to_numpy(ops.image.affine_transform(picture, of_numpy)) == moved[0]).all()  # a NumPy matrix is copied
expected = np.zeros_like(picture)
expected[:, :2, :4] = picture[:, 2:, 1:]
assert (moved[0] == expected).all()
if all((array == expected).all() for array in moved):
    sys.exit(10)
turned = np.zeros_like(picture)
turned[:, :3, :3] = picture[:, 1:, 2:]
sys.exit(11 if (moved[1] == turned).all() and (moved[2] == expected).all() else 1)
PY
cd "$tmp" && "$tmp/venv/bin/python" check.py
