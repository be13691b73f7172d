#!/usr/bin/env bash
# PyTorch: fully_shard() takes each rank's own weights, so groups that replicate each other train different models for good.
set -eu
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
python3 -m venv "$tmp/venv"
"$tmp/venv/bin/pip" install -q torch==2.13.0 numpy==2.4.6
cat >"$tmp/check.py" <<'PY'
import os
import sys
import warnings

warnings.simplefilter("ignore")

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Replicate
from torch.nn.parallel import DistributedDataParallel

RANKS, STEPS, WIDTH = 4, 200, 8


def layers(rank):
    torch.manual_seed(rank)
    model = nn.Sequential(nn.Linear(WIDTH, WIDTH, bias=False), nn.Tanh(), nn.Linear(WIDTH, WIDTH, bias=False))
    return model, [weight.detach().clone() for weight in model.parameters()]


def whole(model):
    """The model's parameters, each as this rank takes it to be."""
    return [weight.detach().full_tensor() if hasattr(weight, "full_tensor") else weight.detach() for weight in model.parameters()]


def apart(values):
    """The largest difference between two ranks in any of the values."""
    flat = torch.cat([value.flatten() for value in values])
    others = [torch.zeros_like(flat) for _ in range(RANKS)]
    dist.all_gather(others, flat)
    return max((flat - other).abs().max().item() for other in others)


def trained(model, rank):
    draw = torch.Generator().manual_seed(rank)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(STEPS):
        inputs = torch.randn(16, WIDTH, generator=draw)
        optimizer.zero_grad()
        (model(inputs) - inputs).square().mean().backward()
        optimizer.step()


def worker(rank):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method="file://" + os.path.abspath("meet"), rank=rank, world_size=RANKS)
    flat, groups = init_device_mesh("cpu", (RANKS,)), init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicate", "shard"))
    seen = {}
    for name, wrap in {"DDP": DistributedDataParallel, "FSDP, one group": lambda model: fully_shard(model, mesh=flat),
                       "FSDP, two groups": lambda model: fully_shard(model, mesh=groups)}.items():
        model, own = layers(rank)
        model = wrap(model)
        first = [own[0].clone() for _ in range(RANKS)]
        dist.all_gather(first, own[0])
        taken = whole(model)[0]
        rows = [next(of for of in range(RANKS) if torch.equal(taken[row], first[of][row])) for row in range(WIDTH)]
        gradient = nn.functional.mse_loss(model(torch.ones(1, WIDTH)), torch.zeros(1, WIDTH))
        gradient.backward()
        averaged = apart([weight.grad.full_tensor() if hasattr(weight.grad, "full_tensor") else weight.grad for weight in model.parameters()])
        trained(model, rank)
        seen[name] = rows, averaged, apart(whole(model)), all(Replicate() in getattr(weight, "placements", ()) for weight in model.parameters())
    seen = [*seen.items()]
    every = [None] * RANKS
    dist.all_gather_object(every, [rows for _, (rows, *_) in seen])
    if rank == 0:
        torch.save((seen, every), "seen")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    print("torch", torch.__version__)
    print("guess: ranks that are one another's replicas begin with one model, whatever seed each had, as under DDP")
    torch.multiprocessing.spawn(worker, nprocs=RANKS)
    seen, every = torch.load("seen", weights_only=False)
    for place, (name, (_, averaged, end, marked)) in enumerate(seen):
        models = sorted({tuple(rows[place]) for rows in every})
        print(f"{name}: the first weight has rows of the ranks {' or '.join(''.join(map(str, model)) for model in models)};",
              f"gradients {averaged:.2g} apart, models {end:.2g} apart behind {STEPS} steps{', marked as replicas' if marked else ''}")
    (_, (ddp, _, ddp_end, _)), (_, (one, _, one_end, _)), (_, (two, two_gradients, two_end, marked)) = seen
    as_found = set(ddp) == {0} and ddp_end == one_end == 0 and sorted(one) == [0, 0, 1, 1, 2, 2, 3, 3]
    as_found &= two_gradients == 0 and two_end > 0.1 and marked and len({tuple(rows[2]) for rows in every}) == 2
    print("as found: no rank gives its weights to another, and the groups' models never meet" if as_found else "CHANGED")
    sys.exit(0 if as_found else 1)
PY
cd "$tmp" && "$tmp/venv/bin/python" check.py 2>log || { tail -20 log; exit 1; }
