#!/usr/bin/env bash
# PyTorch and JAX: of a seed of 64 bits the generators take the lower half, so what was put into the upper half changes nothing.
set -eu
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
python3 -m venv "$tmp/venv"
"$tmp/venv/bin/pip" install -q torch==2.13.0 jax==0.10.2 jaxlib==0.10.2 numpy==2.4.6
cat >"$tmp/check.py" <<'PY'
import random
import sys

import jax
import numpy as np
import torch
from torch.utils.data import DataLoader, RandomSampler

jax.config.update("jax_platforms", "cpu")
SAMPLES = 8


def torch_generator(seed):
    return torch.randperm(SAMPLES, generator=torch.Generator().manual_seed(seed)).tolist()


def torch_global(seed):
    torch.manual_seed(seed)
    return torch.nn.Linear(2, 4).weight.flatten().tolist()


def torch_loader(seed):
    sampler = RandomSampler(range(SAMPLES), generator=torch.Generator().manual_seed(seed))
    return [int(sample) for sample in DataLoader(range(SAMPLES), sampler=sampler)]


def jax_key(seed):
    return jax.random.permutation(jax.random.key(seed), SAMPLES).tolist()


def jax_key_of_numpy(seed):
    return jax.random.permutation(jax.random.key(np.int64(seed)), SAMPLES).tolist()


def numpy_generator(seed):
    return np.random.default_rng(seed).permutation(SAMPLES).tolist()


def python_generator(seed):
    order = list(range(SAMPLES))
    random.Random(seed).shuffle(order)
    return order


print("torch", torch.__version__, "jax", jax.__version__, "numpy", np.__version__)
print("guess: seeds (epoch << 32) | node give each node another order in each epoch, as both libraries take 64 bits")
seen = {}
for draw in (torch_generator, torch_global, torch_loader, jax_key, jax_key_of_numpy, numpy_generator, python_generator):
    epochs = [draw((epoch << 32) | 5) for epoch in range(4)]
    nodes = [draw((1 << 32) | node) for node in range(4)]
    seen[draw.__name__] = len({str(order) for order in epochs}), len({str(order) for order in nodes})
    print(f"{draw.__name__}: four epochs of one node make {seen[draw.__name__][0]} different draws, "
          f"four nodes in one epoch {seen[draw.__name__][1]}")
shown = torch.Generator().manual_seed((3 << 32) | 5).initial_seed()
print(f"initial_seed() is {shown}, the whole of what was given")
try:
    jax.random.fold_in(jax.random.key(0), (3 << 32) | 5)
    folded = "taken"
except OverflowError as error:
    folded = "refused"
    print("jax.random.fold_in of that number:", error)
halved = ("torch_generator", "torch_global", "torch_loader", "jax_key", "jax_key_of_numpy")
as_found = (all(seen[name] == ((1 if name in halved else 4), 4) for name in seen) and shown == (3 << 32) | 5 and folded == "refused")
print("as found: the upper half is dropped without a word" if as_found else "CHANGED")
sys.exit(0 if as_found else 1)
PY
cd "$tmp" && "$tmp/venv/bin/python" check.py
