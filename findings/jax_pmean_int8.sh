#!/usr/bin/env bash
# JAX: pmean of narrow integers wraps around before it divides, while mean over the same array does not, so an average of quantised values over devices is wrong by size.
set -eu
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
python3 -m venv "$tmp/venv"
"$tmp/venv/bin/pip" install -q jax==0.10.2 jaxlib==0.10.2 numpy==2.4.6
cat >"$tmp/check.py" <<'PY'
import os
import sys

DEVICES = 4
os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={DEVICES}"

import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

mesh = jax.make_mesh((DEVICES,), ("node",))


def over_devices(value, kind):
    """The mean over devices that have this value each: by pmean, and by mean of the sharded array."""
    array = jax.device_put(jnp.full((DEVICES,), value, kind), NamedSharding(mesh, P("node")))
    by_pmean = jax.jit(jax.shard_map(lambda part: jax.lax.pmean(part, "node"), mesh=mesh, in_specs=P("node"), out_specs=P()))(array)
    by_mean = jax.jit(jnp.mean)(array)
    return by_pmean.dtype.name, float(by_pmean[0]), float(by_mean)


print("jax", jax.__version__, "devices", jax.device_count())
print("guess: the mean is a float, so pmean converts first, as mean does: four times 100 have the mean 100")
seen = {}
for value, kind in ((20, jnp.int8), (100, jnp.int8), (100, jnp.uint8), (20_000, jnp.int16), (2 ** 30, jnp.int32), (30_000, jnp.float16)):
    seen[value, kind.__name__] = (result, pmean, mean) = over_devices(value, kind)
    print(f"four times {value} as {kind.__name__}: pmean {pmean:g} as {result}, mean {mean:g}")
as_found = (seen[20, "int8"] == ("float32", 20, 20) and seen[100, "int8"] == ("float32", -28, 100)
            and seen[100, "uint8"] == ("float32", 36, 100) and seen[20_000, "int16"] == ("float32", 3616, 20_000)
            and seen[2 ** 30, "int32"][1:] == (0, 2 ** 30))
print("as found: pmean sums in the values' own type, and gives a float" if as_found else "CHANGED")
sys.exit(0 if as_found else 1)
PY
cd "$tmp" && "$tmp/venv/bin/python" check.py
