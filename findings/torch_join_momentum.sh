#!/usr/bin/env bash
# PyTorch: join() gives a rank that ran out of data the others' model, but not their optimizer's state, so replicas part in the next epoch.
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
from torch.nn.parallel import DistributedDataParallel

BATCHES, EPOCHS, SHARED = (8, 4), 3, 4  # mini-batches of each rank in an epoch; both take part in the first four steps
VARIANTS = {"SGD": lambda parameters: torch.optim.SGD(parameters, lr=0.1),
            "SGD with momentum": lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9),
            "Adam": lambda parameters: torch.optim.Adam(parameters, lr=0.01)}


def between_ranks(model):
    """The largest difference of a parameter between the two ranks."""
    own = nn.utils.parameters_to_vector(model.parameters()).detach()
    both = [torch.empty_like(own) for _ in BATCHES]
    dist.all_gather(both, own)
    return (both[0] - both[1]).abs().max().item()


def train(rank, make):
    """For each epoch: how far apart the ranks are behind the shared steps, and behind the epoch."""
    torch.manual_seed(0)
    model = DistributedDataParallel(nn.Linear(4, 3))
    optimizer = make(model.parameters())
    draw, apart = torch.Generator().manual_seed(rank), []
    for _ in range(EPOCHS):
        with model.join():
            for step in range(BATCHES[rank]):
                optimizer.zero_grad()
                model(torch.randn(8, 4, generator=draw)).square().mean().backward()
                optimizer.step()
                if step + 1 == SHARED:
                    kept = [parameter.detach().clone() for parameter in model.parameters()]
        behind = between_ranks(model)
        now = [parameter.detach().clone() for parameter in model.parameters()]
        with torch.no_grad():  # look back at the last shared step
            for parameter, old in zip(model.parameters(), kept):
                parameter.copy_(old)
            shared = between_ranks(model)
            for parameter, new in zip(model.parameters(), now):
                parameter.copy_(new)
        apart.append((shared, behind))
    return apart


def worker(rank):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method="file://" + os.path.abspath("meet"), rank=rank, world_size=len(BATCHES))
    seen = {name: train(rank, make) for name, make in VARIANTS.items()}
    if rank == 0:
        torch.save(seen, "seen")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    print("torch", torch.__version__)
    print("guess: ranks with unlike numbers of batches have one model in every step that they make together")
    torch.multiprocessing.spawn(worker, nprocs=len(BATCHES))
    seen = torch.load("seen")
    for name, apart in seen.items():
        print(f"{name}: the ranks differ by " + ", ".join(
            f"{shared:.4f} within epoch {epoch} and {behind:.4f} behind it" for epoch, (shared, behind) in enumerate(apart, 1)))
    as_found = all(behind == 0 for apart in seen.values() for _, behind in apart)
    as_found &= all(apart[0][0] == 0 for apart in seen.values()) and all(shared == 0 for shared, _ in seen["SGD"])
    as_found &= all(shared > 0.001 for name in VARIANTS if name != "SGD" for shared, _ in seen[name][1:])
    print("as found: from the second epoch on the gradients of two models are averaged, and the end of the epoch hides it"
          if as_found else "CHANGED")
    sys.exit(0 if as_found else 1)
PY
cd "$tmp" && "$tmp/venv/bin/python" check.py 2>log || { tail -20 log; exit 1; }
