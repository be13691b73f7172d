#!/usr/bin/env bash
# PyTorch: vector_to_parameters copies nothing, so models that were given one averaged vector train each other.
set -eu
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
python3 -m venv "$tmp/venv"
"$tmp/venv/bin/pip" install -q torch==2.13.0 numpy==2.4.6
cat >"$tmp/check.py" <<'PY'
import sys

import torch
from torch import nn
from torch.nn.utils import parameters_to_vector, vector_to_parameters

torch.set_num_threads(1)
STEPS, RATE = 5, 0.1
INPUTS = torch.randn(32, 4, generator=torch.Generator().manual_seed(0))
TARGETS = (INPUTS[:, :1] > 0).float()


def train(model):
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    for _ in range(STEPS):
        optimizer.zero_grad()
        (model(INPUTS) - TARGETS).square().mean().backward()
        optimizer.step()


def flat(model):
    return parameters_to_vector(model.parameters()).detach().clone()


def round_of_local_sgd(give):
    """Two models get their mean by `give`; then the first trains alone. How far the second moves, and the mean itself."""
    torch.manual_seed(0)
    first, second = nn.Linear(4, 1), nn.Linear(4, 1)
    mean = (flat(first) + flat(second)) / 2
    before = mean.clone()
    give(mean, first.parameters())
    give(mean, second.parameters())
    train(first)
    return (flat(second) - before).norm().item(), (mean - before).norm().item(), (flat(first) - before).norm().item()


def copied(vector, parameters):
    parameters = list(parameters)
    with torch.no_grad():
        for parameter, part in zip(parameters, vector.split([p.numel() for p in parameters])):
            parameter.copy_(part.view_as(parameter))


print("torch", torch.__version__)
print("guess: it copies, as documented; the first model trains, the other and the mean stay, and a bfloat16 model stays bfloat16")
seen = {}
for name, give in (("copy_", copied), ("vector_to_parameters", vector_to_parameters)):
    seen[name] = round_of_local_sgd(give)
    print(f"{name}: the trained model moved by {seen[name][2]:.4f}, the other by {seen[name][0]:.4f}, the mean by {seen[name][1]:.4f}")
half = nn.Linear(4, 1).bfloat16()
vector_to_parameters(torch.zeros(5), half.parameters())
print("a bfloat16 model that was given a float32 vector:", half.weight.dtype)
moved = seen["vector_to_parameters"]
as_found = (seen["copy_"][:2] == (0.0, 0.0) and seen["copy_"][2] > 0.01
            and moved[0] == moved[1] == moved[2] > 0.01 and half.weight.dtype == torch.float32)
print("as found: one memory for all of them, in the vector's type" if as_found else "CHANGED")
sys.exit(0 if as_found else 1)
PY
cd "$tmp" && "$tmp/venv/bin/python" check.py
