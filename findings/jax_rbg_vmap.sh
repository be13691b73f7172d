#!/usr/bin/env bash
# JAX: with the rbg generators, vmap over keys reads the first key only, so what a sample draws depends on its place and on whose key comes first.
set -eu
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
python3 -m venv "$tmp/venv"
"$tmp/venv/bin/pip" install -q jax==0.10.2 jaxlib==0.10.2 numpy==2.4.6
cat >"$tmp/check.py" <<'PY'
import sys

import jax
import jax.numpy as jnp

FEATURES = 8


def masks(impl, samples):
    """A dropout mask for each sample, by a key of its own: a function of the run's seed and of the sample's number."""
    run = jax.random.key(7, impl=impl)
    keys = jax.vmap(lambda sample: jax.random.fold_in(run, sample))(jnp.array(samples))
    return jax.vmap(lambda key: jax.random.bernoulli(key, 0.5, (FEATURES,)))(keys)


def equal(a, b):
    return [bool((x == y).all()) for x, y in zip(a, b)]


print("jax", jax.__version__)
print("guess: what is drawn by a sample's own key is that sample's, in each mini-batch and at each place of it")
seen = {}
for impl in ("threefry2x32", "rbg", "unsafe_rbg"):
    batch = masks(impl, [10, 11, 12, 13])
    alone = jnp.concatenate([masks(impl, [sample]) for sample in (10, 11, 12, 13)])
    others = equal(batch, masks(impl, [10, 21, 22, 23]))
    turned = equal(batch[::-1], masks(impl, [13, 12, 11, 10]))
    shorter = equal(batch[1:], masks(impl, [11, 12, 13]))
    seen[impl] = {"alone": equal(batch, alone), "others": others, "turned": turned, "shorter": shorter}
    print(f"{impl}: masks of samples 10 to 13, place by place: like each alone {seen[impl]['alone']}; like those of samples 10, 21, "
          f"22, 23 {others}; each sample the same in the reverse order {turned}; without sample 10 {shorter}")
sound = {"alone": [True] * 4, "others": [True, False, False, False], "turned": [True] * 4, "shorter": [True] * 3}
as_found = seen["threefry2x32"] == sound
for impl in ("rbg", "unsafe_rbg"):
    found = seen[impl]
    as_found &= found["others"] == [True] * 4  # other samples behind the same first one: the same masks
    as_found &= not any(found["alone"][1:]) and not any(found["turned"]) and not any(found["shorter"])
print("as found: one key draws for the whole mini-batch, and nothing is raised" if as_found else "CHANGED")
sys.exit(0 if as_found else 1)
PY
cd "$tmp" && "$tmp/venv/bin/python" check.py
