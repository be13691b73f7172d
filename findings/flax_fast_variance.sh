#!/usr/bin/env bash
# Flax: norms of values whose mean is a thousand times their spread are wrong, and then a hundredfold or thousandfold too large.
set -eu
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
python3 -m venv "$tmp/venv"
"$tmp/venv/bin/pip" install -q flax==0.12.8 jax==0.10.2 jaxlib==0.10.2 numpy==2.4.6
cat >"$tmp/check.py" <<'PY'
import sys

import flax
import jax
import jax.numpy as jnp
import numpy as np
from flax import linen, nnx

ROWS, FEATURES, MEANS = 256, 8, (10.0, 1000.0, 3000.0)  # the spread is 1


def normalised(layer, values):
    out = layer.apply(layer.init(jax.random.key(0), values), values, mutable=["batch_stats"])[0]
    return np.asarray(out, np.float64)


def exact(values, epsilon):
    values = np.asarray(values, np.float64)
    centred = values - values.mean(0)
    return centred / np.sqrt((centred**2).mean(0) + epsilon)


LAYERS = {  # of each feature over all rows, and the epsilon
    "linen BatchNorm": (lambda x: normalised(linen.BatchNorm(use_running_average=False, epsilon=1e-5), x), 1e-5),
    "nnx BatchNorm": (lambda x: np.asarray(nnx.BatchNorm(x.shape[1], epsilon=1e-5, rngs=nnx.Rngs(0))(x), np.float64), 1e-5),
    "linen LayerNorm": (lambda x: normalised(linen.LayerNorm(epsilon=1e-6), x.T).T, 1e-6),
    "linen GroupNorm": (lambda x: normalised(linen.GroupNorm(num_groups=1, epsilon=1e-6), x.T).T, 1e-6),
    "BatchNorm, use_fast_variance=False": (
        lambda x: normalised(linen.BatchNorm(use_running_average=False, epsilon=1e-5, use_fast_variance=False), x), 1e-5),
    "LayerNorm, use_fast_variance=False": (lambda x: normalised(linen.LayerNorm(epsilon=1e-6, use_fast_variance=False), x.T).T, 1e-6),
    "jax.numpy's mean and var": (lambda x: np.asarray((x - x.mean(0)) / jnp.sqrt(x.var(0) + 1e-5), np.float64), 1e-5),
}
print("flax", flax.__version__, "jax", jax.__version__)
print("guess: float32 holds such values to four digits of their spread, so their norm has about as many, as jax.numpy gives")
draw = np.random.default_rng(0).standard_normal((ROWS, FEATURES))
off = {}
for mean in MEANS:
    values = jnp.asarray(draw + mean, jnp.float32)
    for name, (layer, epsilon) in LAYERS.items():
        off[name, mean] = float(np.abs(layer(values) - exact(values, epsilon)).max())
for name in LAYERS:
    print(f"{name}: largest error", ", ".join(f"{off[name, mean]:.3g} at a mean of {mean:g}" for mean in MEANS))
as_found = True
for name in list(LAYERS)[:4]:  # a variance of zero divides by the root of the epsilon
    as_found &= off[name, 10.0] < 0.001 and off[name, 1000.0] > 0.3 and off[name, 3000.0] > LAYERS[name][1] ** -0.5
for name in list(LAYERS)[4:]:
    as_found &= max(off[name, mean] for mean in MEANS) < 0.01
print("as found: the variance is a difference of squares, which cancels, and zero where it would be negative" if as_found else "CHANGED")
sys.exit(0 if as_found else 1)
PY
cd "$tmp" && "$tmp/venv/bin/python" check.py
