#!/usr/bin/env bash
# JAX: in shard_map the usual mean of gradients is their sum, and local steps are not local.
set -eu
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
python3 -m venv "$tmp/venv"
"$tmp/venv/bin/pip" install -q jax==0.10.2 jaxlib==0.10.2 numpy==2.4.6
cat >"$tmp/check.py" <<'PY'
import os
import sys

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=4"
import jax
import jax.numpy as jnp
from jax.sharding import AxisType, PartitionSpec as P

mesh = jax.make_mesh((4,), ("data",), axis_types=(AxisType.Auto,))
w = jnp.float32(1.0)
x = jnp.arange(1.0, 9.0)  # two examples for each of four devices


def mean_gradient(w, x):
    gradient = jax.grad(lambda w: jnp.mean(w * x))(w)
    return jax.lax.pmean(gradient, "data")


def mean_gradient_varying(w, x):
    return mean_gradient(jax.lax.pcast(w, "data", to="varying"), x)


def local_sgd(w, x):
    """Two steps of each device on its own examples, then one average."""
    for _ in range(2):
        w = w - 0.01 * jax.grad(lambda w: jnp.mean((w * x) ** 2))(w)
    return jax.lax.pmean(w, "data")


def by_shard_map(f, **options):
    f = jax.shard_map(f, mesh=mesh, in_specs=(P(), P("data")), out_specs=P(), **options)
    return round(float(f(w, x)), 4)


def by_pmap(f):
    f = jax.pmap(f, axis_name="data", in_axes=(None, 0))
    return round(float(f(w, x.reshape(4, 2))[0]), 4)


print("jax", jax.__version__, "- guess: one function means the same under pmap and shard_map")
seen = {
    "mean gradient, pmap": by_pmap(mean_gradient),
    "mean gradient, shard_map": by_shard_map(mean_gradient),
    "mean gradient, shard_map, check_vma=False": by_shard_map(mean_gradient, check_vma=False),
    "mean gradient, shard_map, parameter made varying": by_shard_map(mean_gradient_varying),
    "local SGD, pmap": by_pmap(local_sgd),
    "local SGD, shard_map": by_shard_map(local_sgd),
    "local SGD, shard_map, check_vma=False": by_shard_map(local_sgd, check_vma=False),
}
for what, value in seen.items():
    print(f"{what}: {value}")
gradients = list(seen.values())[:4]
local = list(seen.values())[4:]
as_found = gradients == [4.5, 18.0, 4.5, 4.5] and abs(local[2] - local[0]) < 0.001 and abs(local[1] - local[0]) > 0.05
print("as found: four times the gradient, and another model" if as_found else "CHANGED")
sys.exit(0 if as_found else 1)
PY
cd "$tmp" && "$tmp/venv/bin/python" check.py
