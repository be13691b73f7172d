#!/usr/bin/env bash
# PyTorch: an instance norm counts no batches, so with momentum=None its running statistics never leave 0 and 1, and evaluation does nothing.
set -eu
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
python3 -m venv "$tmp/venv"
"$tmp/venv/bin/pip" install -q torch==2.13.0 numpy==2.4.6
cat >"$tmp/check.py" <<'PY'
import sys

import torch
from torch import nn

STEPS = 5
torch.manual_seed(0)
pictures = 7 + 2 * torch.randn(16, 3, 5, 5)  # of mean 7


def trained(kind, momentum):
    """Batches counted, the running mean of the first channel, and the mean of what evaluation gives."""
    norm = kind(3, momentum=momentum, track_running_stats=True)
    for _ in range(STEPS):
        norm(pictures)
    norm.eval()
    return (norm.num_batches_tracked.item(), round(norm.running_mean[0].item()), round(norm(pictures).mean().item()))


print("torch", torch.__version__)
print("guess: with track_running_stats an instance norm keeps num_batches_tracked, and averages with momentum=None, as a batch norm does")
seen = {}
for momentum in (0.1, None):
    for kind in (nn.BatchNorm2d, nn.InstanceNorm2d):
        seen[kind, momentum] = trained(kind, momentum)
        print(kind.__name__, "momentum", momentum, "(batches counted, running mean, evaluated mean):", *seen[kind, momentum])
as_found = (seen[nn.BatchNorm2d, 0.1][0] == STEPS and seen[nn.BatchNorm2d, None] == (STEPS, 7, 0)
            and seen[nn.InstanceNorm2d, 0.1][:2] == (0, 3) and seen[nn.InstanceNorm2d, None] == (0, 0, 7))
print("as found: nothing is counted, nothing averaged, and evaluation lets the pictures through" if as_found else "CHANGED")
sys.exit(0 if as_found else 1)
PY
cd "$tmp" && "$tmp/venv/bin/python" check.py
