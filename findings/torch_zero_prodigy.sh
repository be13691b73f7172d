#!/usr/bin/env bash
# PyTorch and pytorch-optimizer: under ZeroRedundancyOptimizer an optimizer that finds its own rate finds another one on each rank.
set -eu
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
python3 -m venv "$tmp/venv"
"$tmp/venv/bin/pip" install -q pytorch-optimizer==4.1.0 torch==2.13.0 numpy==2.4.6
cat >"$tmp/check.py" <<'PY'
import os
import sys
import warnings
from importlib.metadata import version

import torch
import torch.distributed as dist
from pytorch_optimizer import DAdaptAdam, Prodigy
from torch import nn
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel

RANKS, STEPS, WIDTH = 2, 30, 16
KINDS = {"AdamW": (torch.optim.AdamW, 1e-2), "Prodigy": (Prodigy, 1.0), "DAdaptAdam": (DAdaptAdam, 1.0)}


def train(rank, kind, rate, sharded):
    """(the way that the parameters went, the rate that this rank's optimizer found)"""
    torch.manual_seed(0)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(WIDTH, 2 * WIDTH), nn.ReLU(), nn.Linear(2 * WIDTH, WIDTH)))
    optimizer = ZeroRedundancyOptimizer(model.parameters(), kind, lr=rate) if sharded else kind(model.parameters(), lr=rate)
    flat = lambda: torch.cat([parameter.detach().flatten() for parameter in model.parameters()])
    start, draw = flat(), torch.Generator().manual_seed(rank)
    for _ in range(STEPS):
        inputs = torch.randn(16, WIDTH, generator=draw)
        optimizer.zero_grad()
        (model(inputs) - 2 * inputs).square().mean().backward()
        optimizer.step()
    inner = optimizer.optim if sharded else optimizer
    return flat() - start, float(inner.param_groups[0].get("d", 1.0)) * rate


def worker(rank):
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    dist.init_process_group("gloo", init_method="file://" + os.path.abspath("meet"), rank=rank, world_size=RANKS)
    torch.save({name: [train(rank, *options, sharded) for sharded in (False, True)] for name, options in KINDS.items()}, f"seen{rank}")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    print("pytorch-optimizer", version("pytorch-optimizer"), "torch", torch.__version__)
    print("guess: spreading an optimizer's state over ranks changes no step")
    torch.multiprocessing.spawn(worker, nprocs=RANKS)
    seen, as_found = [torch.load(f"seen{rank}") for rank in range(RANKS)], True
    for name in KINDS:
        (whole, rate), (sharded, first) = seen[0][name]
        (_, _), (other, second) = seen[1][name]
        off = ((sharded - whole).norm() / whole.norm()).item()
        as_found &= torch.equal(sharded, other)
        as_found &= off < 1e-5 if name == "AdamW" else off > 0.2 and max(first, second) > 1.02 * min(first, second)
        print(f"{name}: off by {off:.1%} of its way; the rate is {rate:.3g} unsharded, {first:.3g} on rank 0 and {second:.3g} on rank 1")
    print("as found: layers learn at the rate of the rank that holds them" if as_found else "CHANGED")
    sys.exit(0 if as_found else 1)
PY
cd "$tmp" && "$tmp/venv/bin/python" check.py 2>log || { tail -20 log; exit 1; }
