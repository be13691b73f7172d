#!/usr/bin/env bash
# PyTorch: groups without a rate of their own share one tensor of it, so schedulers that differ by group, or cut, change the wrong groups.
set -eu
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
python3 -m venv "$tmp/venv"
"$tmp/venv/bin/pip" install -q torch==2.13.0 numpy==2.4.6
cat >"$tmp/check.py" <<'PY'
import sys

import torch
from torch.optim.lr_scheduler import LambdaLR, ReduceLROnPlateau

STEPS = 4


def rates(rate, schedule):
    """The rates of two groups that both take the optimizer's, in STEPS steps, where the loss stays at 1."""
    body, head = torch.nn.Linear(2, 2), torch.nn.Linear(2, 1)
    optimizer = torch.optim.AdamW([{"params": body.parameters()}, {"params": head.parameters()}], lr=rate)
    scheduler = schedule(optimizer)
    seen = []
    for _ in range(STEPS):
        seen.append(tuple(round(float(group["lr"]), 6) for group in optimizer.param_groups))
        head(body(torch.ones(1, 2))).sum().backward()
        optimizer.step()
        scheduler.step(*([1.0] if isinstance(scheduler, ReduceLROnPlateau) else []))
    return seen


def tenth_for_head(optimizer):
    return LambdaLR(optimizer, [lambda step: 1.0, lambda step: 0.1])


def halve(optimizer):
    return ReduceLROnPlateau(optimizer, factor=0.5, patience=0)


print("torch", torch.__version__)
print("guess: lr=torch.tensor(0.1), as a compiled or captured optimizer wants it, is scheduled like lr=0.1")
seen = {}
for schedule in (tenth_for_head, halve):
    for rate in (0.1, torch.tensor(0.1)):
        name = (schedule.__name__, type(rate).__name__)
        seen[name] = rates(rate, schedule)
        print(*name, "(body, head):", *seen[name])
as_found = (seen["tenth_for_head", "float"] == [(0.1, 0.01)] * STEPS
            and seen["tenth_for_head", "Tensor"] == [(0.01, 0.01)] * STEPS
            and seen["halve", "float"][1:] == [(0.1, 0.1), (0.05, 0.05), (0.025, 0.025)]
            and seen["halve", "Tensor"][1:] == [(0.1, 0.1), (0.025, 0.025), (0.00625, 0.00625)])
print("as found: the last group's rate for all, and a half becomes a quarter" if as_found else "CHANGED")
sys.exit(0 if as_found else 1)
PY
cd "$tmp" && "$tmp/venv/bin/python" check.py
