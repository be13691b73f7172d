#!/usr/bin/env bash
# PyTorch: fused optimizers on the CPU pair parameter, gradient and state by their place in memory, so an old state gets mixed up in a channels_last model.
set -eu
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
python3 -m venv "$tmp/venv"
"$tmp/venv/bin/pip" install -q torch==2.13.0 numpy==2.4.6
cat >"$tmp/check.py" <<'PY'
import sys

import torch
from torch import nn

SHAPE, STEPS, RESUMED = (8, 4, 3, 3), 4, 2
KINDS = {"SGD with momentum": (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9}), "AdamW": (torch.optim.AdamW, {"lr": 0.1}),
         "Adagrad": (torch.optim.Adagrad, {"lr": 0.1})}


def draws():
    draw = torch.Generator().manual_seed(0)
    return torch.randn(SHAPE, generator=draw), [torch.randn(SHAPE, generator=draw) for _ in range(STEPS)]


def resumed(kind, options, fused):
    """A checkpoint of a contiguous model goes on in a channels_last one; the gradients come as autograd lays them."""
    start, gradients = draws()
    weight = nn.Parameter(start)
    optimizer = kind([weight], fused=fused, **options)
    for step, gradient in enumerate(gradients):
        if step == RESUMED:
            saved, weight = optimizer.state_dict(), nn.Parameter(weight.detach().to(memory_format=torch.channels_last))
            optimizer = kind([weight], fused=fused, **options)
            optimizer.load_state_dict(saved)
        weight.grad = torch.empty_like(weight).copy_(gradient)
        optimizer.step()
    return weight.detach()


def from_elsewhere(kind, options, fused):
    """A channels_last parameter, and gradients that are contiguous as they came over a network."""
    start, gradients = draws()
    weight = nn.Parameter(start.to(memory_format=torch.channels_last))
    optimizer = kind([weight], fused=fused, **options)
    for gradient in gradients:
        weight.grad = gradient.clone()
        optimizer.step()
    return weight.detach()


print("torch", torch.__version__)
print("guess: fused=True takes the same steps in less time")
as_found = True
for name, (kind, options) in KINDS.items():
    for way in (resumed, from_elsewhere):
        plain, fused, moved = way(kind, options, False), way(kind, options, True), way(kind, options, False) - draws()[0]
        off, by_default = ((plain - fused).norm() / moved.norm()).item(), (way(kind, options, None) - plain).abs().max().item()
        as_found &= off > 0.05 and by_default < 1e-6
        print(f"{name}, {way.__name__}: with fused=True off by {off:.0%} of the way that the weights went")
print("as found: no error, and the wrong element's gradient or momentum" if as_found else "CHANGED")
sys.exit(0 if as_found else 1)
PY
cd "$tmp" && "$tmp/venv/bin/python" check.py
