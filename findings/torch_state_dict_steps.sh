#!/usr/bin/env bash
# PyTorch: asking for a distributed checkpoint's optimizer state before the first step is a step: Adam starts short, Rprop never starts.
set -eu
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
python3 -m venv "$tmp/venv"
"$tmp/venv/bin/pip" install -q torch==2.13.0 numpy==2.4.6
cat >"$tmp/check.py" <<'PY'
import sys

import torch
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict

STEPS = 20
OPTIMIZERS = {
    "Adam": lambda weights: torch.optim.Adam(weights, lr=0.1),
    "RAdam": lambda weights: torch.optim.RAdam(weights, lr=0.1),
    "SGD with dampening": lambda weights: torch.optim.SGD(weights, lr=0.1, momentum=0.9, dampening=0.9),
    "ASGD": lambda weights: torch.optim.ASGD(weights, lr=0.1),
    "Rprop": lambda weights: torch.optim.Rprop(weights, lr=0.1),
    "SGD with momentum": lambda weights: torch.optim.SGD(weights, lr=0.1, momentum=0.9),
}


def train(kind, before=None):
    """(length of the first step, loss at the end)"""
    torch.manual_seed(0)
    model = nn.Linear(8, 8, bias=False)
    optimizer = OPTIMIZERS[kind](model.parameters())
    if before:
        before(model, optimizer)
    inputs, start = torch.randn(64, 8), model.weight.detach().clone()
    for step in range(STEPS):
        optimizer.zero_grad()
        loss = model(inputs).square().mean()
        loss.backward()
        optimizer.step()
        if step == 0:
            first = (model.weight - start).norm().item()
    return first, loss.item()


print("torch", torch.__version__)
print("guess: get_state_dict() reads, so a checkpoint taken before the first step leaves the training as it was")
seen = {}
for kind in OPTIMIZERS:
    plain = train(kind)
    assert train(kind, lambda model, optimizer: optimizer.state_dict()) == plain
    asked = train(kind, get_state_dict)
    seen[kind] = asked[0] / plain[0]
    print(f"{kind}: first step {plain[0]:.4f}, asked before {asked[0]:.4f}; loss after {STEPS} steps {plain[1]:.4f}, asked {asked[1]:.4f}")
weights = [nn.Parameter(torch.zeros(1))]
model = nn.Module()
model.weight = weights[0]
optimizer = torch.optim.Adam(weights)
get_state_dict(model, optimizer)
counted = optimizer.state[weights[0]]["step"].item()
print(f"Adam's count of steps then, before any was taken: {counted:g}")
as_found = (counted == 1 and 0.7 < seen["Adam"] < 0.8 and seen["RAdam"] < 0.6 and seen["SGD with dampening"] < 0.11
            and seen["ASGD"] == 0 and seen["Rprop"] < 1e-3 and abs(seen["SGD with momentum"] - 1) < 1e-6)
print("as found: it takes a step of rate 0, which these optimizers remember" if as_found else "CHANGED")
sys.exit(0 if as_found else 1)
PY
cd "$tmp" && "$tmp/venv/bin/python" check.py 2>log || { tail -20 log; exit 1; }
