#!/usr/bin/env bash
# PyTorch: a schedule that is built behind the optimizer's load_state_dict() keeps another rate for the rest of the run.
set -eu
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
python3 -m venv "$tmp/venv"
"$tmp/venv/bin/pip" install -q torch==2.13.0 numpy==2.4.6
cat >"$tmp/check.py" <<'PY'
import copy
import sys

import torch
from torch import nn
from torch.optim.lr_scheduler import CosineAnnealingLR, LinearLR, SequentialLR, StepLR

STEPS, SAVED = 100, 40  # the checkpoint is taken behind step SAVED, long after the warmup
SCHEDULES = {
    "warmup": lambda optimizer: LinearLR(optimizer, start_factor=0.1, total_iters=10),
    "warmup, then cosine": lambda optimizer: SequentialLR(
        optimizer, [LinearLR(optimizer, start_factor=0.1, total_iters=10), CosineAnnealingLR(optimizer, STEPS - 10)], [10]),
    "steps": lambda optimizer: StepLR(optimizer, 30),
}


def optimizer_of_rate_one():
    return torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=1.0)


def rates(optimizer, schedule, steps):
    used = []
    for _ in range(steps):
        used.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step()
    return used


def resumed(kind, saved, optimizer_first):
    optimizer = optimizer_of_rate_one()
    if optimizer_first:
        optimizer.load_state_dict(copy.deepcopy(saved[0]))
    schedule = SCHEDULES[kind](optimizer)
    if not optimizer_first:
        optimizer.load_state_dict(copy.deepcopy(saved[0]))
    schedule.load_state_dict(copy.deepcopy(saved[1]))
    shown = schedule.get_last_lr()[0]
    return shown, rates(optimizer, schedule, STEPS - SAVED)


print("torch", torch.__version__)
print("guess: once the optimizer's and the schedule's states are loaded, the rate is that of the uninterrupted run")
quotients = {}
for kind, make in SCHEDULES.items():
    optimizer = optimizer_of_rate_one()
    schedule = make(optimizer)
    rates(optimizer, schedule, SAVED)
    saved = copy.deepcopy((optimizer.state_dict(), schedule.state_dict()))
    whole = rates(optimizer, schedule, STEPS - SAVED)
    assert resumed(kind, saved, optimizer_first=False)[1] == whole
    shown, used = resumed(kind, saved, optimizer_first=True)
    quotients[kind] = [b / a for a, b in zip(whole, used)]
    print(f"{kind}: the rates should go on {whole[0]:.3f} … {whole[-1]:.5f}; with the optimizer loaded before the schedule is built: "
          f"get_last_lr() {shown:.3f}, used {used[0]:.3f} … {used[-1]:.5f}")
as_found = (all(abs(q - 0.1) < 1e-6 for q in quotients["warmup"]) and all(q < 0.14 for q in quotients["warmup, then cosine"])
            and all(q == 1 for q in quotients["steps"]))
print("as found: the warmup's first factor is taken of the loaded rate, and stays" if as_found else "CHANGED")
sys.exit(0 if as_found else 1)
PY
cd "$tmp" && "$tmp/venv/bin/python" check.py 2>log || { tail -20 log; exit 1; }
