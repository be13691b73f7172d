#!/usr/bin/env bash
# PyTorch: one infinite gradient stays in PowerSGD's memories, and GradScaler skips every step from then on.
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
from torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook import PowerSGDState, powerSGD_hook
from torch.nn.parallel import DistributedDataParallel

RANKS, STEPS, OVERFLOW = 2, 40, 8  # in step OVERFLOW the scaled loss is beyond float32
VARIANTS = {"no compression": None, "PowerSGD": True, "PowerSGD without error feedback": False}


def train(rank, feedback):
    """(steps that left the parameters as they were, the loss scale at the end)"""
    torch.manual_seed(0)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 8)))
    if feedback is not None:
        state = PowerSGDState(None, matrix_approximation_rank=2, start_powerSGD_iter=3, use_error_feedback=feedback)
        model.register_comm_hook(state, powerSGD_hook)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    draw, skipped = torch.Generator().manual_seed(rank), []
    for step in range(STEPS):
        inputs = torch.randn(32, 64, generator=draw)
        optimizer.zero_grad()
        loss = (model(inputs) - inputs[:, :8]).square().mean()
        scaler.scale(loss * (1e38 if step == OVERFLOW else 1.0)).backward()
        before = [parameter.detach().clone() for parameter in model.parameters()]
        scaler.step(optimizer)
        scaler.update()
        if all(map(torch.equal, before, model.parameters())):
            skipped.append(step)
    return skipped, scaler.get_scale()


def worker(rank):
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    dist.init_process_group("gloo", init_method="file://" + os.path.abspath("meet"), rank=rank, world_size=RANKS)
    seen = {name: train(rank, feedback) for name, feedback in VARIANTS.items()}
    if rank == 0:
        torch.save(seen, "seen")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    print("torch", torch.__version__)
    print(f"guess: step {OVERFLOW} is skipped, the loss scale is halved, and training goes on, as without compression")
    torch.multiprocessing.spawn(worker, nprocs=RANKS)
    seen = torch.load("seen")
    for name, (skipped, scale) in seen.items():
        print(f"{name}: {len(skipped)} of {STEPS} steps skipped ({skipped[0]} to {skipped[-1]}), loss scale {scale:g} at the end")
    for_ever = list(range(OVERFLOW, STEPS))
    as_found = ([seen[name][0] for name in VARIANTS] == [[OVERFLOW], for_ever, for_ever]
                and seen["no compression"][1] == 512.0 and seen["PowerSGD"][1] < 1e-5)
    print("as found: no parameter moves any more, and nothing is raised" if as_found else "CHANGED")
    sys.exit(0 if as_found else 1)
PY
cd "$tmp" && "$tmp/venv/bin/python" check.py 2>log || { tail -20 log; exit 1; }
