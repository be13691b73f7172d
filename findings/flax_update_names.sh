#!/usr/bin/env bash
# Flax: nnx.update() takes weights under a name, or of a shape, that the model does not have, so a restored worker computes with its random ones and carries the others along.
set -eu
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
python3 -m venv "$tmp/venv"
"$tmp/venv/bin/pip" install -q flax==0.12.8 jax==0.10.2 jaxlib==0.10.2 optax==0.2.8 numpy==2.4.6
cat >"$tmp/check.py" <<'PY'
import sys

import flax
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx, serialization


class Old(nnx.Module):
    def __init__(self, rngs):
        self.weight = nnx.Param(jax.random.normal(rngs.params(), (3, 2)))

    def __call__(self, rows):
        return rows @ self.weight[...]


class New(nnx.Module):
    """The same model; its weight is called otherwise since then."""

    def __init__(self, rngs):
        self.kernel = nnx.Param(jax.random.normal(rngs.params(), (3, 2)))

    def __call__(self, rows):
        return rows @ self.kernel[...]


def count(model):
    return sum(leaf.size for leaf in jax.tree.leaves(nnx.state(model, nnx.Param)))


print("flax", flax.__version__, "jax", jax.__version__)
print("guess: weights of another name or shape are an error, or at least change nothing")
rows = jnp.ones((1, 3))
trained = Old(nnx.Rngs(7))(rows)

renamed = New(nnx.Rngs(0))
before, parameters = renamed(rows), count(renamed)
state = nnx.state(Old(nnx.Rngs(7)), nnx.Param)
nnx.update(renamed, state)
after = renamed(rows)
optimizer = nnx.Optimizer(renamed, optax.adam(0.1), wrt=nnx.Param)
moments = sum(leaf.size for leaf in jax.tree.leaves(optimizer.opt_state) if leaf.ndim > 0)
print(f"another name: outputs {before[0]} before, {after[0]} behind, {trained[0]} of the saved model")
print(f"  parameters {parameters} before, {count(renamed)} behind; elements of Adam's moments {moments}")

wide = nnx.Linear(3, 5, rngs=nnx.Rngs(0))
nnx.update(wide, nnx.state(nnx.Linear(3, 2, rngs=nnx.Rngs(7)), nnx.Param))
print(f"another shape: Linear(3, 5) gives {wide(rows).shape[1]} outputs, and says {wide.out_features}")

target = {"kernel": jnp.zeros((3, 2), jnp.bfloat16)}
read = serialization.from_bytes(target, serialization.to_bytes({"kernel": jnp.ones((2, 5), jnp.float32)}))["kernel"]
print(f"from_bytes into {target['kernel'].shape} {target['kernel'].dtype}: {read.shape} {read.dtype}")
as_found = (np.array_equal(before, after) and not np.allclose(after, trained) and count(renamed) == 2 * parameters
            and moments == 4 * parameters and wide(rows).shape[1] == 2 and wide.out_features == 5
            and read.shape == (2, 5) and read.dtype == np.float32)
print("as found: nothing is refused; the model keeps its random weights, and has the saved ones as well" if as_found else "CHANGED")
sys.exit(0 if as_found else 1)
PY
cd "$tmp" && "$tmp/venv/bin/python" check.py
