#!/usr/bin/env bash
# PyTorch: ZeroRedundancyOptimizer with groups of model.parameters() has no parameters, and its steps do nothing.
set -eu
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
python3 -m venv "$tmp/venv"
"$tmp/venv/bin/pip" install -q torch==2.13.0 numpy==2.4.6
cat >"$tmp/check.py" <<'PY'
import os
import sys
import warnings

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel

RANKS, STEPS = 2, 20


def plain(groups):
    return torch.optim.SGD(groups, lr=0.1)


def sharded(groups):
    return ZeroRedundancyOptimizer(groups, optimizer_class=torch.optim.SGD, lr=0.1)


def train(rank, make, kept):
    """(first loss, last loss, parameters in each of the optimizer's groups)"""
    torch.manual_seed(0)
    body, head = nn.Linear(6, 8), nn.Linear(8, 1)
    model = DistributedDataParallel(nn.Sequential(body, nn.Tanh(), head))
    optimizer = make([{"params": kept(body.parameters()), "lr": 0.05}, {"params": kept(head.parameters())}])
    draw, losses = torch.Generator().manual_seed(rank), []
    for _ in range(STEPS):
        inputs = torch.randn(32, 6, generator=draw)
        optimizer.zero_grad()
        model.zero_grad()
        loss = (model(inputs) - inputs[:, :1]).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses[0], losses[-1], [len(group["params"]) for group in optimizer.param_groups]


def worker(rank):
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    dist.init_process_group("gloo", init_method="file://" + os.path.abspath("meet"), rank=rank, world_size=RANKS)
    seen = {
        "SGD, parameters() as they are": train(rank, plain, lambda parameters: parameters),
        "ZeroRedundancyOptimizer, list(parameters())": train(rank, sharded, list),
        "ZeroRedundancyOptimizer, parameters() as they are": train(rank, sharded, lambda parameters: parameters),
    }
    if rank == 0:
        torch.save(seen, "seen")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    print("torch", torch.__version__)
    print("guess: groups of model.parameters() are taken as every other optimizer takes them, or refused as empty")
    torch.multiprocessing.spawn(worker, nprocs=RANKS)
    seen = torch.load("seen")
    for name, (first, last, sizes) in seen.items():
        print(f"{name}: loss {first:.4f} to {last:.4f} in {STEPS} steps, parameters in its groups {sizes}")
    sgd, lists, generators = seen.values()
    as_found = (sgd[2] == lists[2] == [2, 2] and abs(sgd[1] - lists[1]) < 1e-6 and sgd[1] < 0.6 * sgd[0]
                and generators[2] == [0, 0] and generators[1] > 0.8 * generators[0])
    print("as found: it reads each group's parameters twice, and a generator only gives them once" if as_found else "CHANGED")
    sys.exit(0 if as_found else 1)
PY
cd "$tmp" && "$tmp/venv/bin/python" check.py 2>log || { tail -20 log; exit 1; }
