#!/usr/bin/env bash
# Flax: a masked batch norm over several devices takes the mean of their means, and one device without valid rows gives NaN to all.
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
from flax import nnx
from jax.sharding import PartitionSpec

DEVICES, ROWS = 2, 8
values = np.random.default_rng(0).normal(size=(DEVICES * ROWS, 1)).astype(np.float32)
values[ROWS:] += 10.0  # the devices have other data


def statistics(valid, devices):
    """Mean and variance that the layer keeps, of the first `valid` rows; the rest fills up the batch."""
    mask = (np.arange(DEVICES * ROWS) < valid)[:, None]
    layer = nnx.BatchNorm(1, momentum=0.0, axis_name="data" if devices > 1 else None, rngs=nnx.Rngs(0))
    graph, state = nnx.split(layer)

    def forward(state, inputs, mask):
        layer = nnx.merge(graph, state)
        layer(inputs, use_running_average=False, mask=mask)
        return layer.mean[...], layer.var[...]

    if devices > 1:
        mesh = jax.make_mesh((devices,), ("data",), axis_types=(jax.sharding.AxisType.Auto,))
        rows = PartitionSpec("data")
        forward = jax.shard_map(forward, mesh=mesh, in_specs=(PartitionSpec(), rows, rows),
                                out_specs=(PartitionSpec(), PartitionSpec()))
    mean, variance = jax.jit(forward)(state, jnp.asarray(values), jnp.asarray(mask))
    return float(mean[0]), float(variance[0])


print("flax", flax.__version__, "jax", jax.__version__)
print("guess: with axis_name and a mask, two devices have the statistics of all valid rows, as one device has them")
seen = {}
for valid in (16, 10, 8):
    seen[valid] = [statistics(valid, devices) for devices in (1, DEVICES)]
    true = values[:valid].mean(), values[:valid].var()
    print(f"{valid} of {DEVICES * ROWS} rows are valid: mean and variance of them {true[0]:.3f} {true[1]:.3f},",
          ", ".join(f"{name} {mean:.3f} {variance:.3f}" for name, (mean, variance) in zip(("one device", "two"), seen[valid])))
as_found = (np.allclose(*seen[16], rtol=1e-3) and all(np.allclose(seen[valid][0], (values[:valid].mean(), values[:valid].var()), rtol=1e-3)
                                                     for valid in (10, 8))
            and seen[10][1][0] > 1.5 * seen[10][0][0] and all(np.isnan(seen[8][1])))
print("as found: the rows of a device with few of them count more, and an empty device makes the layer NaN" if as_found else "CHANGED")
sys.exit(0 if as_found else 1)
PY
cd "$tmp" && JAX_PLATFORMS=cpu XLA_FLAGS=--xla_force_host_platform_device_count=2 "$tmp/venv/bin/python" check.py
