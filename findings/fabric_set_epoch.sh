#!/usr/bin/env bash
# Lightning Fabric: the loader of setup_dataloaders() overwrites the sampler's epoch by its own count of passes, so a resumed run or a node that restarts reads the first epochs' order.
set -eu
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
python3 -m venv "$tmp/venv"
"$tmp/venv/bin/pip" install -q lightning-fabric==2.6.6 torch==2.13.0 numpy==2.4.6
cat >"$tmp/check.py" <<'PY'
import logging
import sys
import warnings
from collections import Counter

import torch
from torch.utils.data import DataLoader, DistributedSampler

warnings.simplefilter("ignore")
logging.disable(logging.CRITICAL)
import lightning_fabric
from lightning_fabric import Fabric

NODES, SAMPLES, BATCH, EPOCHS = 2, 1000, 50, 4
STOPPED = (2, 4)  # a node stops in epoch 2, behind four of its ten mini-batches


def node_loader(fabric, node):
    sampler = DistributedSampler(range(SAMPLES), num_replicas=NODES, rank=node, shuffle=True, seed=3)
    loader = DataLoader(range(SAMPLES), batch_size=BATCH, sampler=sampler)
    return fabric.setup_dataloaders(loader, use_distributed_sampler=False) if fabric else loader


def read(loader, first_epoch=0, skip=0):
    """The samples of each epoch from first_epoch on, without the first mini-batches of that one; set_epoch() before each."""
    epochs = {}
    for epoch in range(first_epoch, EPOCHS):
        loader.sampler.set_epoch(epoch)
        batches = [batch.tolist() for batch in loader]
        epochs[epoch] = sum(batches[skip if epoch == first_epoch else 0:], [])
    return epochs


def look(fabric):
    whole = [read(node_loader(fabric, node)) for node in range(NODES)]
    epoch, batches = STOPPED
    again = read(node_loader(fabric, 0), epoch, batches)  # node 0 in a new process: a new loader
    own = whole[0][epoch][: batches * BATCH] + again[epoch]
    twice_by_itself = sum(count > 1 for count in Counter(own).values())
    twice = [sum(count > 1 for count in Counter(again[e] + whole[1][e]).values()) for e in range(epoch + 1, EPOCHS)]
    first = again[epoch + 1] == whole[0][1]
    return twice_by_itself, twice, first


print("lightning-fabric", lightning_fabric.__version__, "torch", torch.__version__)
print("guess: set_epoch() before an epoch decides its order; a node that resumes in epoch 2 reads what was left of it, then epoch 3")
fabric = Fabric(accelerator="cpu", devices=1)
fabric.launch()
seen = {"PyTorch's loader": look(None), "Fabric's loader": look(fabric)}
for name, (by_itself, twice, first) in seen.items():
    print(f"{name}: of its {SAMPLES // NODES} samples of the interrupted epoch the node reads {by_itself} twice; in the next epoch "
          f"both nodes read {twice[0]} of {SAMPLES}, and the node's order {'is' if first else 'is not'} that of epoch 1")
as_found = seen["PyTorch's loader"] == (0, [0], False)
by_itself, twice, first = seen["Fabric's loader"]
as_found &= by_itself > 20 and twice[0] > 150 and first
print("as found: set_epoch() is overwritten, and nothing is raised" if as_found else "CHANGED")
sys.exit(0 if as_found else 1)
PY
cd "$tmp" && "$tmp/venv/bin/python" check.py
