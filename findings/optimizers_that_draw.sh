#!/usr/bin/env bash
# heavyball, pytorch-optimizer, torchao: optimizers draw from the process's generator, so DDP's replicas part where ranks have seeds of their own.
set -eu
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
python3 -m venv "$tmp/venv"
"$tmp/venv/bin/pip" install -q heavyball==3.2.1 pytorch-optimizer==4.1.0 torchao==0.18.0 torch==2.13.0 numpy==2.4.6
cat >"$tmp/check.py" <<'PY'
import os
import sys
import warnings
from importlib.metadata import version

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

RANKS, STEPS, WIDTH = 2, 30, 32


def heavyball_adamw(parameters):
    import heavyball

    heavyball.utils.compile_mode = None  # no compiler is needed, and the arithmetic is the same
    return heavyball.AdamW(parameters, lr=1e-3)


def pytorch_optimizer_kron(parameters):
    from pytorch_optimizer import Kron

    return Kron(parameters, lr=1e-3)


def torchao_adamw(parameters):
    from torchao.optim import _AdamW

    return _AdamW(parameters, lr=1e-3, bf16_stochastic_round=True)


VARIANTS = {"torch AdamW, bfloat16": (lambda parameters: torch.optim.AdamW(parameters, lr=1e-3), torch.bfloat16),
            "heavyball AdamW, bfloat16": (heavyball_adamw, torch.bfloat16),
            "torchao AdamW, bfloat16": (torchao_adamw, torch.bfloat16),
            "pytorch-optimizer Kron, float32": (pytorch_optimizer_kron, torch.float32)}


def train(rank, make, kind, seeds):
    """(how far the ranks are apart, how far a rank went)"""
    torch.manual_seed(0)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH)).to(kind))
    flat = lambda: torch.cat([parameter.detach().float().flatten() for parameter in model.parameters()])
    start, optimizer = flat(), make(model.parameters())
    draw = torch.Generator().manual_seed(rank)
    torch.manual_seed(seeds[rank])  # for dropout and augmentation
    for _ in range(STEPS):
        inputs = torch.randn(16, WIDTH, generator=draw).to(kind)
        optimizer.zero_grad()
        (model(inputs) - inputs).float().square().mean().backward()
        optimizer.step()
    both = [torch.empty_like(start) for _ in range(RANKS)]
    dist.all_gather(both, flat())
    return (both[0] - both[1]).norm().item(), (both[0] - start).norm().item()


def worker(rank):
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    dist.init_process_group("gloo", init_method="file://" + os.path.abspath("meet"), rank=rank, world_size=RANKS)
    seen = {name: (train(rank, *variant, (7, 7)), train(rank, *variant, (7, 8))) for name, variant in VARIANTS.items()}
    if rank == 0:
        torch.save(seen, "seen")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    print(*(f"{name} {version(name)}" for name in ("heavyball", "pytorch-optimizer", "torchao", "torch")))
    print("guess: replicas that start alike and get the same gradients stay alike")
    torch.multiprocessing.spawn(worker, nprocs=RANKS)
    seen, as_found = torch.load("seen"), True
    for name, ((apart_same, way), (apart, _)) in seen.items():
        as_found &= apart_same < 1e-4 * way and (apart == 0 if name.startswith("torch ") else apart > 0.01 * way)
        print(f"{name}: with one seed the ranks are apart by {apart_same / way:.4%} of their way, with a seed each by {apart / way:.1%}")
    print("as found: from then on the gradients of two models are averaged" if as_found else "CHANGED")
    sys.exit(0 if as_found else 1)
PY
cd "$tmp" && "$tmp/venv/bin/python" check.py 2>log || { tail -20 log; exit 1; }
