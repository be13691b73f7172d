#!/usr/bin/env bash
# torchao: where gradients of one block differ a thousandfold, 8-bit Adam leaps and 4-bit Adam stands still.
set -eu
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
python3 -m venv "$tmp/venv"
"$tmp/venv/bin/pip" install -q torchao==0.18.0 torch==2.13.0 numpy==2.4.6
cat >"$tmp/check.py" <<'PY'
import logging
import sys
import warnings

logging.disable(logging.WARNING)
warnings.simplefilter("ignore")

import torch
import torchao
from torchao.optim import AdamW4bit, AdamW8bit, AdamWFp8

torch.set_num_threads(1)
RATE, STEPS, BATCH, INPUTS, OUTPUTS = 1e-3, 20, 32, 128, 64
BETA1, BETA2 = 0.9, 0.999
BOUND = RATE * STEPS * (1 - BETA1) / (1 - BETA2) ** 0.5  # Kingma and Ba, 2015, section 2.1


def moved(kind, units):
    """How far the weights of a linear layer move whose every other input is measured in other `units`: median, largest."""
    draw = torch.Generator().manual_seed(0)
    layer = torch.nn.Linear(INPUTS, OUTPUTS, bias=False)
    torch.nn.init.zeros_(layer.weight)
    optimizer = kind(layer.parameters(), lr=RATE, betas=(BETA1, BETA2), weight_decay=0.0)
    scale = torch.ones(INPUTS)
    scale[1::2] = units
    for _ in range(STEPS):
        optimizer.zero_grad()
        inputs = (1 + 0.5 * torch.randn(BATCH, INPUTS, generator=draw)) * scale
        targets = 1 + 5 * torch.randn(BATCH, OUTPUTS, generator=draw)
        (layer(inputs) - targets).square().mean().backward()
        optimizer.step()
    far = layer.weight.detach()[:, 1::2].abs()
    return far.median().item(), far.max().item()


print("torchao", torchao.__version__, "torch", torch.__version__)
print(f"guess: Adam divides scales away, so in {STEPS} steps at rate {RATE} a weight moves by {RATE * STEPS} or less,"
      f" never by more than {BOUND:.3f}, and in other units by about the same; with fewer bits a little less precisely")
seen = {}
for units in (1.0, 1e-3):
    for kind in (torch.optim.AdamW, AdamW8bit, AdamWFp8, AdamW4bit):
        seen[kind, units] = moved(kind, units)
        print(f"units {units:g}, {kind.__name__}: median {seen[kind, units][0]:.4f}, largest {seen[kind, units][1]:.4f}")
alike = [seen[kind, 1.0] for kind in (torch.optim.AdamW, AdamW8bit, AdamWFp8)] + [seen[torch.optim.AdamW, 1e-3]]
alike = [seen[kind, 1.0] for kind in (torch.optim.AdamW, AdamW8bit, AdamWFp8, AdamW4bit)] + [seen[torch.optim.AdamW, 1e-3]]
as_found = (all(0.005 < median < 0.02 and largest < BOUND for median, largest in alike) and seen[AdamW4bit, 1e-3][1] < 0.002
            and seen[AdamW8bit, 1e-3][1] > 5 * BOUND and seen[AdamWFp8, 1e-3][1] > 5 * BOUND)
print("as found: small second moments are rounded to 0 with 8 bits and never with 4; weights leap there, and stand still here" if as_found else "CHANGED")
sys.exit(0 if as_found else 1)
PY
cd "$tmp" && TORCHDYNAMO_DISABLE=1 "$tmp/venv/bin/python" check.py  # compiled, which needs a C++ compiler, it does the same
