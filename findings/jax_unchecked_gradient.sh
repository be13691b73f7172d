#!/usr/bin/env bash
# JAX: check_vma=False of shard_map takes away more than a check: the same loss has another gradient, each device's own.
set -eu
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
python3 -m venv "$tmp/venv"
"$tmp/venv/bin/pip" install -q jax==0.10.2 numpy==2.4.6
cat >"$tmp/check.py" <<'PY'
import os
import sys

DEVICES = 4
os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={DEVICES}"

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, PartitionSpec

MESH = Mesh(np.array(jax.devices()), ("nodes",))
RATE, STEPS = 0.005, 10


def loss(weight, rows):
    """The mean loss of a linear model without a bias, whose weights shall be 3."""
    return jnp.mean((rows @ (weight - 3.0)) ** 2)


def whole_loss(weight, rows):
    """That of the rows of all devices, as each device sees it."""
    return jax.lax.pmean(loss(weight, rows), "nodes")


def on_devices(function, checked):
    """`function` of a shared weight and of each device's rows, and what each device gets of it."""
    return jax.jit(jax.shard_map(lambda weight, rows: function(weight, rows)[None], mesh=MESH, check_vma=checked,
                                 in_specs=(PartitionSpec(), PartitionSpec("nodes")), out_specs=PartitionSpec("nodes")))


def trained(weight, rows):
    for _ in range(STEPS):
        weight = weight - RATE * jax.grad(whole_loss)(weight, rows)
    return weight


print("jax", jax.__version__)
print("guess: check_vma=False leaves out a check, so a program that passes it computes the same without")
rows = jnp.arange(1.0, 1 + 2 * DEVICES).reshape(-1, 1)
weight = jnp.array([1.0])
right = jax.grad(loss)(weight, rows)
print("gradient of all rows, one device:", *right)
seen = {}
for checked in (True, False):
    seen[checked] = {"loss": on_devices(whole_loss, checked)(weight, rows).ravel()}
    for name, function in (("gradient of the mean loss", jax.grad(whole_loss)),
                           ("mean of the gradients of own losses", lambda w, r: jax.lax.pmean(jax.grad(loss)(w, r), "nodes")),
                           ("mean of the gradients of the mean loss", lambda w, r: jax.lax.pmean(jax.grad(whole_loss)(w, r), "nodes")),
                           (f"weight behind {STEPS} steps by the first", trained)):
        seen[checked][name] = on_devices(function, checked)(weight, rows).ravel()
    for name, values in seen[checked].items():
        print(f"check_vma={checked}, {name}:", *(f"{value:.4g}" for value in values))
first, second, third, behind = list(seen[True])[1:]
own = [jax.grad(loss)(weight, part)[0] for part in jnp.split(rows, DEVICES)]


def alike(values, expected):
    return np.allclose(values, expected, rtol=1e-5)


as_found = alike(seen[True]["loss"], seen[False]["loss"])
as_found &= alike(seen[True][first], right) and alike(seen[False][first], own)
as_found &= alike(seen[True][second], DEVICES * right) and alike(seen[False][second], right)
as_found &= alike(seen[True][third], right) and alike(seen[False][third], right)
as_found &= np.ptp(seen[True][behind]) == 0 and np.ptp(seen[False][behind]) > 0.5
print("as found: without the check each device has the gradient of its own rows, and the shared weight parts" if as_found else "CHANGED")
sys.exit(0 if as_found else 1)
PY
cd "$tmp" && "$tmp/venv/bin/python" check.py
