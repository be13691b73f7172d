#!/usr/bin/env bash
# optax: clipping float16 gradients by their norm turns them into zeros from a norm of 256.
set -eu
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
python3 -m venv "$tmp/venv"
"$tmp/venv/bin/pip" install -q optax==0.2.8 jax==0.10.2 jaxlib==0.10.2 numpy==2.4.6
cat >"$tmp/check.py" <<'PY'
import sys

import jax
import jax.numpy as jnp
import optax

clip = optax.clip_by_global_norm(1.0)
print("optax", optax.__version__, "jax", jax.__version__)
print("guess: a gradient far below the largest float16 (65504) is scaled to norm 1")
norms = []
for size in (100.0, 200.0, 300.0, 3000.0):
    gradient = {"w": jnp.array([0.6 * size, 0.8 * size], jnp.float16)}
    clipped, _ = clip.update(gradient, clip.init(gradient))
    half = clipped["w"].astype(jnp.float32)
    wide = {"w": gradient["w"].astype(jnp.float32)}
    exact, _ = clip.update(wide, clip.init(wide))
    norms.append((float(jnp.linalg.norm(half)), float(jnp.linalg.norm(exact["w"]))))
    print(f"norm {size:g}: float16 gives {half.tolist()}, float32 gives {exact['w'].tolist()}")
as_found = (all(0.98 < n[0] < 1.02 for n in norms[:2]) and all(n[0] == 0 for n in norms[2:])
            and all(0.99 < n[1] < 1.01 for n in norms))
print("as found: zeros, no error" if as_found else "CHANGED")
sys.exit(0 if as_found else 1)
PY
cd "$tmp" && "$tmp/venv/bin/python" check.py
