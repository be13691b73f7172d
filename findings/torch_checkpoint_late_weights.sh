#!/usr/bin/env bash
# PyTorch: activation checkpoints, and on the CPU save_on_cpu, turn off the check for weights changed between forward and backward.
set -eu
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
python3 -m venv "$tmp/venv"
"$tmp/venv/bin/pip" install -q torch==2.13.0 numpy==2.4.6
cat >"$tmp/check.py" <<'PY'
import sys
from contextlib import nullcontext

import torch
from torch import nn
from torch.autograd.graph import save_on_cpu
from torch.utils.checkpoint import checkpoint

torch.set_num_threads(1)
torch.manual_seed(0)
INPUTS, TARGETS = torch.randn(64, 8), torch.randn(64, 1)
OLD, NEW = ([torch.randn(16, 8) / 8**0.5, torch.randn(1, 16) / 4] for _ in range(2))


def gradient(call, context, weights, arriving=None):
    """Of both layers, flat; `arriving` are weights that are written into the model behind the forward pass."""
    block = nn.Sequential(nn.Linear(8, 16, bias=False), nn.Tanh(), nn.Linear(16, 1, bias=False))

    def write(values):
        with torch.no_grad():
            for parameter, value in zip(block.parameters(), values):
                parameter.copy_(value)

    write(weights)
    with context():
        loss = (call(block, INPUTS) - TARGETS).square().mean()
    if arriving is not None:
        write(arriving)
    loss.backward()
    return torch.cat([parameter.grad.flatten() for parameter in block.parameters()])


def plainly(block, inputs):
    return block(inputs)


def recomputed(block, inputs):
    return checkpoint(block, inputs, use_reentrant=False)


def off(a, b):
    return ((a - b).norm() / b.norm()).item()


print("torch", torch.__version__)
print("guess: each way raises, for the weights that the backward pass needs are gone")
of_old, of_new = gradient(plainly, nullcontext, OLD), gradient(plainly, nullcontext, NEW)
seen = {}
for name, call, context in (("plain", plainly, nullcontext), ("checkpoint", recomputed, nullcontext),
                            ("save_on_cpu", plainly, save_on_cpu)):
    try:
        found = gradient(call, context, OLD, arriving=NEW)
        seen[name] = off(found, of_old), off(found, of_new)
        print(f"{name}: no error; the gradient is off by {seen[name][0]:.0%} from that of the old weights,"
              f" by {seen[name][1]:.0%} from that of the new ones")
    except RuntimeError as error:
        seen[name] = "modified by an inplace operation" in str(error)
        print(f"{name}: RuntimeError: {str(error)[:91]}…")
as_found = seen["plain"] is True and all(isinstance(seen[name], tuple) and min(seen[name]) > 0.2
                                         for name in ("checkpoint", "save_on_cpu"))
print("as found: a gradient of no weights that the model ever had, and no error" if as_found else "CHANGED")
sys.exit(0 if as_found else 1)
PY
cd "$tmp" && "$tmp/venv/bin/python" check.py
