#!/usr/bin/env bash
# Orbax: what is restored takes the type of its target, so a best accuracy of 0.93 is 0 where a fresh program begins with 0.
set -eu
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
python3 -m venv "$tmp/venv"
"$tmp/venv/bin/pip" install -q orbax-checkpoint==0.12.8 jax==0.10.2 jaxlib==0.10.2 numpy==2.4.6
cat >"$tmp/check.py" <<'PY'
import logging
import os
import sys
import warnings
from importlib.metadata import version

logging.disable(logging.CRITICAL)
warnings.simplefilter("ignore")

import jax
import jax.numpy as jnp
import numpy as np
from orbax.checkpoint import StandardCheckpointer

SAMPLES = 2**40 + 1
saved = {"best_accuracy": 0.93, "rate": 0.05, "samples": SAMPLES, "seen": np.array([SAMPLES]),
         "weights": jnp.array([0.5, 1.9, 300.0, -1.5])}
fresh = {"best_accuracy": 0, "rate": 1, "samples": jnp.int32(0), "seen": np.zeros(1, np.int32), "weights": jnp.zeros(4, jnp.int8)}


def lists(tree):
    return {name: np.asarray(value).tolist() for name, value in tree.items()}


print("orbax-checkpoint", version("orbax-checkpoint"), "jax", jax.__version__)
print("guess: a target whose types cannot hold what was saved is refused, as one of another shape is")
store, place = StandardCheckpointer(), os.path.abspath("checkpoint")
store.save(place, saved)
store.wait_until_finished()
exact, target_of_saved = lists(saved), lists(store.restore(place, saved))
without, typed = lists(store.restore(place)), lists(store.restore(place, fresh))
for name in saved:
    print(f"{name}: saved {exact[name]}, restored without a target {without[name]}, into a fresh {type(fresh[name]).__name__} "
          f"{getattr(fresh[name], 'dtype', '')} {typed[name]}")
try:
    store.restore(place, {**saved, "weights": jnp.zeros(6)})
    shape = "taken"
except ValueError:
    shape = "refused"
print("a target of another shape:", shape)
as_found = without == target_of_saved == exact and shape == "refused"
as_found &= typed == {"best_accuracy": 0, "rate": 0, "samples": 1, "seen": [1], "weights": [0, 1, 44, -1]}
print("as found: fractions are cut off, and whole numbers lose their upper half" if as_found else "CHANGED")
sys.stdout.flush()
sys.exit(0 if as_found else 1)
PY
cd "$tmp" && "$tmp/venv/bin/python" check.py 2>log || { tail -20 log; exit 1; }
