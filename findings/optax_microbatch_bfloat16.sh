#!/usr/bin/env bash
# optax: microbatch() adds micro-batches up in the gradient's own type, where MultiSteps takes float32, so in bfloat16 later ones are lost, also from a running mean.
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
from optax.microbatching import AccumulationType


def gradient(weight, rows):
    return jax.grad(lambda w: (w * rows).mean())(weight)


def by_microbatch(accumulator, kind, count, second=1):
    """Half of the gradients are 1, and then half are `second`."""
    weight, rows = jnp.ones((), kind), jnp.repeat(jnp.array([1, second], kind), count // 2)
    return float(optax.microbatch(gradient, 1, 1, accumulator)(weight, rows))


def by_multi_steps(kind, count):
    """The step of SGD with rate 1 behind as many equal gradients."""
    weight = jnp.ones((), kind)
    steps = optax.MultiSteps(optax.sgd(1.0), every_k_schedule=count)

    def one(state, _):
        update, state = steps.update(gradient(weight, jnp.ones((1,), kind)), state, weight)
        return state, update

    return -float(jax.lax.scan(one, steps.init(weight), None, length=count)[1][-1])


print("optax", optax.__version__, "jax", jax.__version__)
print("guess: the mean gradient of equal samples is that of one, 1, however a batch is cut, as with MultiSteps")
seen = {}
for kind in (jnp.float32, jnp.bfloat16):
    for count in (256, 1024, 4096):
        seen[kind.__name__, count] = (by_multi_steps(kind, count), by_microbatch(AccumulationType.MEAN, kind, count),
                                      by_microbatch(AccumulationType.RUNNING_MEAN, kind, count),
                                      by_microbatch(AccumulationType.SUM, kind, count))
        print(f"{kind.__name__}, {count} micro-batches of one row: MultiSteps {seen[kind.__name__, count][0]:g}, "
              "microbatch MEAN {1:g}, RUNNING_MEAN {2:g}, SUM {3:g}".format(*seen[kind.__name__, count]))
halves = {(kind.__name__, count): by_microbatch(AccumulationType.RUNNING_MEAN, kind, count, 3)
          for kind in (jnp.float32, jnp.bfloat16) for count in (1024, 4096)}
for (kind, count), mean in halves.items():
    print(f"{kind}, {count} micro-batches, half of gradient 1 and then half of 3: microbatch RUNNING_MEAN {mean:g}, expected 2")
as_found = all(abs(seen["float32", count][at] - 1) < 1e-5 for count in (256, 1024, 4096) for at in (0, 1, 2))
as_found &= all(abs(seen["bfloat16", count][0] - 1) < 0.01 for count in (256, 1024, 4096))
as_found &= seen["bfloat16", 256][1] == 1 and seen["bfloat16", 1024][1] == 0.25 and seen["bfloat16", 4096][1] == 0.0625
as_found &= seen["bfloat16", 4096][3] == 256
as_found &= all(abs(halves["float32", count] - 2) < 1e-3 for count in (1024, 4096))
as_found &= halves["bfloat16", 1024] == 2 and halves["bfloat16", 4096] == 1
print("as found: the mean shrinks with the number of micro-batches" if as_found else "CHANGED")
sys.exit(0 if as_found else 1)
PY
cd "$tmp" && "$tmp/venv/bin/python" check.py
