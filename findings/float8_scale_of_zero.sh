#!/usr/bin/env bash
# float8_e8m0fnu, the type of scales in MX formats: zero is NaN in JAX and NumPy and 2^-127 in PyTorch, so one library's block of zeros is the other's block of NaN.
set -eu
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
python3 -m venv "$tmp/venv"
"$tmp/venv/bin/pip" install -q jax==0.10.2 jaxlib==0.10.2 ml_dtypes==0.6.0 torch==2.13.0 numpy==2.4.6
cat >"$tmp/check.py" <<'PY'
import sys

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import torch

LARGEST = 448  # of float8_e4m3fn


def in_torch(values):
    block = torch.tensor(values)
    scale = (block.abs().max() / LARGEST).to(torch.float8_e8m0fnu)
    return ((block / scale.float()).to(torch.float8_e4m3fn).float() * scale.float()).tolist()


def in_jax(values):
    block = jnp.array(values, jnp.float32)
    scale = (jnp.abs(block).max() / LARGEST).astype(jnp.float8_e8m0fnu).astype(jnp.float32)
    return ((block / scale).astype(jnp.float8_e4m3fn).astype(jnp.float32) * scale).tolist()


def in_numpy(values):
    block = np.array(values, np.float32)
    scale = (np.abs(block).max() / np.float32(LARGEST)).astype(ml_dtypes.float8_e8m0fnu).astype(np.float32)
    return ((block / scale).astype(ml_dtypes.float8_e4m3fn).astype(np.float32) * scale).tolist()


def cast(value):
    """The value as a scale: in PyTorch, JAX, NumPy."""
    return (torch.tensor(value).to(torch.float8_e8m0fnu).float().item(),
            float(jnp.float32(value).astype(jnp.float8_e8m0fnu)),
            float(np.float32(value).astype(ml_dtypes.float8_e8m0fnu)))


print("torch", torch.__version__, "jax", jax.__version__, "ml_dtypes", ml_dtypes.__version__)
print("guess: both round to a power of two, zero to the smallest, 2^-127; a negative number is NaN in both")
seen = {value: cast(value) for value in (1.0, 2.9, 3.0, 1e-40, 0.0, -1.0, float("inf"))}
for value, (torch_, jax_, numpy_) in seen.items():
    print(f"{value:g}: PyTorch {torch_:g}, JAX {jax_:g}, NumPy {numpy_:g}")
blocks = {"small": [0.0, 1.75, -3.5, 0.875], "zero": [0.0, 0.0, 0.0, 0.0]}
with np.errstate(invalid="ignore"):
    written = {name: (in_torch(block), in_jax(block), in_numpy(block)) for name, block in blocks.items()}
for name, results in written.items():
    print(f"block {blocks[name]} written and read: PyTorch {results[0]}, JAX {results[1]}, NumPy {results[2]}")
TINY = 2.0 ** -127
as_found = all(seen[value][0] == seen[value][1] == seen[value][2] for value in (1.0, 2.9, 3.0, 1e-40)) and seen[1e-40][0] == TINY
as_found &= seen[0.0][0] == TINY and np.isnan(seen[0.0][1:]).all()
as_found &= seen[-1.0][0] == 1.0 and np.isnan(seen[-1.0][1:]).all()
as_found &= all(result == blocks["small"] for result in written["small"])
as_found &= written["zero"][0] == blocks["zero"] and np.isnan(written["zero"][1:]).all()
print("as found: PyTorch drops the sign and keeps a zero block, JAX and NumPy make NaN of both" if as_found else "CHANGED")
sys.exit(0 if as_found else 1)
PY
cd "$tmp" && "$tmp/venv/bin/python" check.py
