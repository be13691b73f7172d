#!/usr/bin/env bash
# bitsandbytes: Adam decays like AdamW, SGD takes nesterov and dampening and leaves them out, and LAMB8bit is an Adam.
set -eu
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
python3 -m venv "$tmp/venv"
"$tmp/venv/bin/pip" install -q bitsandbytes==0.50.2 torch==2.13.0 numpy==2.4.6
cat >"$tmp/check.py" <<'PY'
import sys

import torch

import bitsandbytes
from bitsandbytes import optim

torch.set_num_threads(1)
SHAPE, STEPS, RATE = (64, 128), 8, 0.01  # of so many values the optimizers with 8 bits do use 8 bits


def way(kind, **options):
    """How the weights move, by gradients that become smaller."""
    draw = torch.Generator().manual_seed(0)
    weight = torch.nn.Parameter(torch.randn(SHAPE, generator=draw))
    start = weight.detach().clone()
    optimizer = kind([weight], lr=RATE, **options)
    for step in range(STEPS):
        weight.grad = torch.randn(SHAPE, generator=draw) * 0.5**step
        optimizer.step()
    return weight.detach() - start


def apart(a, b):
    return ((a - b).norm() / b.norm()).item()


MOMENTUM, DECAY = {"momentum": 0.9}, {"weight_decay": 0.1}
NESTEROV, DAMPED, AMSGRAD = MOMENTUM | {"nesterov": True}, MOMENTUM | {"dampening": 0.5}, {"amsgrad": True, "betas": (0.9, 0.5)}
SAME = [  # what bitsandbytes was asked for, and what it does
    ("SGD(momentum)", way(optim.SGD, **MOMENTUM), "SGD(momentum)", way(torch.optim.SGD, **MOMENTUM)),
    ("Adam", way(optim.Adam), "Adam", way(torch.optim.Adam)),
    ("AdamW(weight_decay)", way(optim.AdamW, **DECAY), "AdamW(weight_decay)", way(torch.optim.AdamW, **DECAY)),
    ("Adam(weight_decay)", way(optim.Adam, **DECAY), "AdamW(weight_decay)", way(torch.optim.AdamW, **DECAY)),
    ("Adam(amsgrad)", way(optim.Adam, **AMSGRAD), "Adam", way(torch.optim.Adam, **AMSGRAD | {"amsgrad": False})),
    ("SGD(nesterov)", way(optim.SGD, **NESTEROV), "SGD(momentum)", way(torch.optim.SGD, **MOMENTUM)),
    ("SGD(dampening)", way(optim.SGD, **DAMPED), "SGD(momentum)", way(torch.optim.SGD, **MOMENTUM)),
    ("LAMB8bit", way(optim.LAMB8bit), "Adam8bit", way(optim.Adam8bit)),
]
UNLIKE = [  # what was asked for is something else in PyTorch, or with 32 bits
    ("Adam(weight_decay)", way(optim.Adam, **DECAY), way(torch.optim.Adam, **DECAY)),
    ("Adam(amsgrad)", way(optim.Adam, **AMSGRAD), way(torch.optim.Adam, **AMSGRAD)),
    ("SGD(nesterov)", way(optim.SGD, **NESTEROV), way(torch.optim.SGD, **NESTEROV)),
    ("SGD(dampening)", way(optim.SGD, **DAMPED), way(torch.optim.SGD, **DAMPED)),
    ("LAMB8bit", way(optim.LAMB8bit), way(optim.LAMB)),
]
print("bitsandbytes", bitsandbytes.__version__, "torch", torch.__version__)
print("guess: an optimizer of PyTorch's name, with its arguments, takes its steps or refuses the argument; bits cost precision only")
for asked, moved, done, expected in SAME:
    print(f"{asked} against {done}: {apart(moved, expected):.1e} of the way apart")
for asked, moved, expected in UNLIKE:
    print(f"{asked}, to that of PyTorch or of 32 bits: {apart(moved, expected):.2f} of the way apart")
as_found = all(apart(moved, expected) < 1e-4 for _, moved, _, expected in SAME)
as_found &= all(apart(moved, expected) > 0.05 for _, moved, expected in UNLIKE)
print("as found: arguments are taken and left out, and names promise what is not done" if as_found else "CHANGED")
sys.exit(0 if as_found else 1)
PY
cd "$tmp" && "$tmp/venv/bin/python" check.py 2>log || { tail -20 log; exit 1; }
