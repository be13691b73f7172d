#!/usr/bin/env bash
# PyTorch: with any comm hook, also the one that does what DDP does, join(divide_by_initial_world_size=False) divides by all ranks.
set -eu
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
python3 -m venv "$tmp/venv"
"$tmp/venv/bin/pip" install -q torch==2.13.0 numpy==2.4.6
cat >"$tmp/check.py" <<'PY'
import os
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook, fp16_compress_hook
from torch.nn.parallel import DistributedDataParallel

BATCHES = (6, 3, 3)  # from the fourth step on one rank of three has data
HOOKS = {"no hook": None, "allreduce_hook": allreduce_hook, "fp16_compress_hook": fp16_compress_hook}


def batches(rank):
    draw = torch.Generator().manual_seed(rank)
    return [torch.randn(8, 4, generator=draw) for _ in range(BATCHES[rank])]


def expected():
    """The length of the mean gradient of those ranks that have data."""
    torch.manual_seed(0)
    model, data, lengths = nn.Linear(4, 3), [batches(rank) for rank in range(len(BATCHES))], []
    for step in range(max(BATCHES)):
        present = [own[step] for own in data if step < len(own)]
        loss = sum(model(inputs).square().mean() for inputs in present) / len(present)
        lengths.append(torch.autograd.grad(loss, model.weight)[0].norm())
    return torch.stack(lengths)


def train(rank, hook):
    torch.manual_seed(0)
    model, lengths = DistributedDataParallel(nn.Linear(4, 3)), []
    if hook:
        model.register_comm_hook(None, hook)
    with model.join(divide_by_initial_world_size=False):
        for inputs in batches(rank):
            model.zero_grad()
            model(inputs).square().mean().backward()
            lengths.append(model.module.weight.grad.norm())
    return torch.stack(lengths)


def worker(rank):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method="file://" + os.path.abspath("meet"), rank=rank, world_size=len(BATCHES))
    seen = {name: train(rank, hook) for name, hook in HOOKS.items()}
    if rank == 0:
        torch.save(seen, "seen")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    print("torch", torch.__version__)
    print("guess: the gradient is the mean over the ranks that still have data, with a hook as without")
    torch.multiprocessing.spawn(worker, nprocs=len(BATCHES))
    as_found, right = True, expected()
    for name, lengths in torch.load("seen").items():
        ratio = lengths / right
        alone = 1.0 if name == "no hook" else 1 / len(BATCHES)
        as_found &= bool((ratio[:3] - 1).abs().max() < 1e-2 and (ratio[3:] / alone - 1).abs().max() < 1e-2)
        print(f"{name}: gradient by what it should be, in each step: " + " ".join(f"{each:.3f}" for each in ratio))
    print("as found: the hook divides by the ranks of the group, whether they have data or not" if as_found else "CHANGED")
    sys.exit(0 if as_found else 1)
PY
cd "$tmp" && "$tmp/venv/bin/python" check.py 2>log || { tail -20 log; exit 1; }
