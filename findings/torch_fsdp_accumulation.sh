#!/usr/bin/env bash
# PyTorch: FSDP2 with bfloat16 parameters adds micro-batches up in bfloat16 where ranks do not synchronise in between, so the gradient depends on when they do.
set -eu
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
python3 -m venv "$tmp/venv"
"$tmp/venv/bin/pip" install -q torch==2.13.0 numpy==2.4.6
cat >"$tmp/check.py" <<'PY'
import json
import os
import sys
import warnings

import torch
import torch.distributed as dist
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import init_device_mesh

RANKS = 2
COUNTS = (256, 384)


def gradient(mesh, count, reduce_type, every):
    """Of a weight behind `count` equal micro-batches of gradient 1, synchronised behind every one or behind the last."""
    model = torch.nn.Linear(4, 2, bias=False)
    fully_shard(model, mesh=mesh, mp_policy=MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=reduce_type))
    for at in range(count):
        model.set_requires_gradient_sync(every or at == count - 1)
        model(torch.ones(1, 4)).sum().backward()
    grad = model.weight.grad.to_local()
    return grad[0, 0].item(), str(grad.dtype)


def worker(rank):
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method="file://" + os.path.abspath("meet"), rank=rank, world_size=RANKS)
    mesh = init_device_mesh("cpu", (RANKS,))
    seen = {}
    for reduce_type in (None, torch.float32):
        for every in (True, False):
            name = f"reduce_dtype={reduce_type}, synchronised behind {'each' if every else 'the last'}"
            seen[name] = [gradient(mesh, count, reduce_type, every) for count in COUNTS]
    if rank == 0:
        with open("seen", "w") as file:
            json.dump(seen, file)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    print("torch", torch.__version__)
    print("guess: parameters and gradients of a shard are float32, so", COUNTS, "micro-batches of gradient 1 have that sum")
    torch.multiprocessing.spawn(worker, nprocs=RANKS)
    with open("seen") as file:
        seen = json.load(file)
    as_found = True
    for name, results in seen.items():
        sums = [value for value, _ in results]
        print(f"{name}: {sums}, as {results[0][1]}")
        right = [min(count, 256) for count in COUNTS] if name == "reduce_dtype=None, synchronised behind the last" else list(COUNTS)
        as_found &= sums == right and {kind for _, kind in results} == {"torch.float32"}
    print("as found: a float32 gradient that stops at 256" if as_found else "CHANGED")
    sys.exit(0 if as_found else 1)
PY
cd "$tmp" && "$tmp/venv/bin/python" check.py
