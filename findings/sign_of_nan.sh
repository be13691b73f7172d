#!/usr/bin/env bash
# PyTorch, MLX: the sign of NaN is 0, so that after a single NaN Lion leaves a weight where it is for good, and nothing else shows it.
set -eu
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
python3 -m venv "$tmp/venv"
"$tmp/venv/bin/pip" install -q torch==2.13.0 pytorch-optimizer==4.1.0 'mlx[cpu]==0.32.4' jax==0.10.2 optax==0.2.8 numpy==2.4.6
cat >"$tmp/check.py" <<'PY'
import sys
from importlib.metadata import version

import jax
import jax.numpy as jnp
import mlx.core as mx
import mlx.optimizers
import numpy as np
import optax
import pytorch_optimizer
import torch

torch.set_num_threads(1)
RATE, STEPS, BAD = 0.01, 200, 10  # the gradient of step 10 has one NaN
START = np.array([1.0, -1.0, 0.5], "float32")
TARGET = np.zeros(3, "float32")  # the loss is half the square distance, so that a weight is its own gradient


def gradients(weights, step):
    taken = np.array(weights - TARGET)
    if step == BAD:
        taken[0] = np.nan
    return taken


def by_torch(kind):
    weight = torch.nn.Parameter(torch.from_numpy(START.copy()))
    optimizer = kind([weight], lr=RATE)
    for step in range(STEPS):
        weight.grad = torch.from_numpy(gradients(weight.detach().numpy(), step))
        optimizer.step()
        yield weight.detach().numpy().copy()


def by_mlx(kind):
    weights, optimizer = {"w": mx.array(START)}, kind(learning_rate=RATE)
    for step in range(STEPS):
        weights = optimizer.apply_gradients({"w": mx.array(gradients(np.array(weights["w"]), step))}, weights)
        yield np.array(weights["w"])


def by_optax(kind):
    weights, optimizer = jnp.array(START), kind(RATE)
    state = optimizer.init(weights)
    for step in range(STEPS):
        updates, state = optimizer.update(jnp.array(gradients(np.array(weights), step)), state, weights)
        weights = optax.apply_updates(weights, updates)
        yield np.array(weights)


RUNS = {  # and whether the NaN is to be seen in the weights
    "Lion of pytorch-optimizer": (by_torch, lambda weights, lr: pytorch_optimizer.Lion(weights, lr=lr), False),
    "SignSGD of pytorch-optimizer": (by_torch, lambda weights, lr: pytorch_optimizer.SignSGD(weights, lr=lr), False),
    "Adam of PyTorch": (by_torch, torch.optim.Adam, True),
    "Lion of MLX": (by_mlx, mlx.optimizers.Lion, False),
    "Adam of MLX": (by_mlx, mlx.optimizers.Adam, True),
    "Lion of optax": (by_optax, lambda rate: optax.lion(rate), True),
}
print(*(f"{name} {version(name)}" for name in ("torch", "pytorch-optimizer", "mlx", "jax", "optax", "numpy")))
print("guess: who steps by a gradient with a NaN has a NaN in its weights and its loss from then on, and so is found out")
nan = float("nan")
signs = {"NumPy": np.sign(nan), "JAX": jnp.sign(nan), "PyTorch": torch.sign(torch.tensor(nan)), "MLX": mx.sign(mx.array(nan)).item()}
signs = {name: float(value) for name, value in signs.items()}
print("the sign of NaN:", ", ".join(f"{name} {value:g}" for name, value in signs.items()))
as_found = np.isnan(signs["NumPy"]) and np.isnan(signs["JAX"]) and signs["PyTorch"] == signs["MLX"] == 0
for name, (run, kind, shows) in RUNS.items():
    way = list(run(kind))
    first, loss = [weights[0] for weights in way], 0.5 * float(np.sum(way[-1] ** 2))
    print(f"{name}: the first weight {START[0]:g}, {first[BAD - 1]:.3f}, {first[BAD]:.3f} with the NaN, {first[-1]:.3f} at the end; loss {loss:.3f}")
    as_found &= np.isnan(loss) if shows else (first[-1] == first[BAD] == first[BAD - 1] > 0.8 and abs(way[-1][1:]).max() < 0.1)
print("as found: that weight has stopped for good, the others are trained, and no weight or loss is NaN" if as_found else "CHANGED")
sys.exit(0 if as_found else 1)
PY
cd "$tmp" && "$tmp/venv/bin/python" check.py 2>log || { tail -20 log; exit 1; }
