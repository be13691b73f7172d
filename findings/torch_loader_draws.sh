#!/usr/bin/env bash
# PyTorch: reading a DataLoader in fixed order, without shuffling, moves the global generator, so one node's evaluation makes nodes deal different permutations.
set -eu
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
python3 -m venv "$tmp/venv"
"$tmp/venv/bin/pip" install -q torch==2.13.0 numpy==2.4.6
cat >"$tmp/check.py" <<'PY'
import sys
from collections import Counter

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

NODES, SAMPLES, EPOCHS = 2, 1000, 3
TEST = TensorDataset(torch.arange(100.0))


def evaluate(own_generator):
    """Reads the test set from its first to its last sample; draws nothing that the reader would see."""
    generator = torch.Generator() if own_generator else None
    for _ in DataLoader(TEST, batch_size=10, shuffle=False, generator=generator):
        pass


def parts(node, who_evaluates, own_generator):
    """What the node reads in each epoch: every second place of the permutation that all nodes draw from one seed."""
    torch.manual_seed(7)
    read = []
    for _ in range(EPOCHS):
        read.append(torch.randperm(SAMPLES)[node::NODES].tolist())
        if node in who_evaluates:
            evaluate(own_generator)
    return read


def twice(who_evaluates, own_generator=False):
    """In each epoch the number of samples that both nodes read; as many are then read by none."""
    by_node = [parts(node, who_evaluates, own_generator) for node in range(NODES)]
    return [sum(count > 1 for count in Counter(by_node[0][epoch] + by_node[1][epoch]).values()) for epoch in range(EPOCHS)]


def trained(evaluations):
    """The weight behind two steps with dropout, with so many evaluations between them."""
    torch.manual_seed(7)
    net = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5), nn.Linear(8, 1))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for step in range(2):
        optimizer.zero_grad()
        net(torch.ones(4, 8)).square().mean().backward()
        optimizer.step()
        if step == 0:
            for _ in range(evaluations):
                evaluate(own_generator=False)
    return net[0].weight.detach()


print("torch", torch.__version__)
print("guess: reading a test set in its order draws nothing, so it changes neither later permutations nor dropout")
cases = {"no evaluation": twice(()), "both nodes evaluate": twice((0, 1)), "node 0 evaluates": twice((0,)),
         "node 0 evaluates, its loader with a generator of its own": twice((0,), own_generator=True)}
for name, counts in cases.items():
    print(f"{name}: of {SAMPLES} samples both nodes read {counts}, epoch by epoch")
none, one, two = trained(0), trained(1), trained(2)
apart = [float((a - b).abs().max()) for a, b in ((none, one), (one, two), (none, trained(0)))]
print(f"weights behind two steps: none or one evaluation between them {apart[0]:.4f} apart, one or two {apart[1]:.4f}, none twice {apart[2]:g}")
as_found = cases["node 0 evaluates"][0] == 0 and min(cases["node 0 evaluates"][1:]) > 150
as_found &= all(not any(counts) for name, counts in cases.items() if name != "node 0 evaluates")
as_found &= min(apart[:2]) > 1e-3 and apart[2] == 0
print("as found: a quarter of the samples is read twice and a quarter never, and nothing is raised" if as_found else "CHANGED")
sys.exit(0 if as_found else 1)
PY
cd "$tmp" && "$tmp/venv/bin/python" check.py
