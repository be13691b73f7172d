#!/usr/bin/env bash
# schedulefree: nodes whose parameters are averaged have unlike models as soon as eval() is called, none of them the average, so what is evaluated and saved is another.
set -eu
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
python3 -m venv "$tmp/venv"
"$tmp/venv/bin/pip" install -q schedulefree==1.4.1 torch==2.13.0 numpy==2.4.6
cat >"$tmp/check.py" <<'PY'
import copy
import sys
from importlib.metadata import version

import schedulefree
import torch

NODES, STEPS, PERIOD = 2, 40, 4
TARGETS = (torch.tensor([[1.0, 2.0, 3.0, 4.0]]), torch.tensor([[-1.0, 2.0, -3.0, 4.0]]))  # each node has other data


def average(nodes):
    with torch.no_grad():
        for copies in zip(*(node.parameters() for node in nodes)):
            mean = torch.stack([each.detach() for each in copies]).mean(0)
            for each in copies:
                each.copy_(mean)


def train(kind):
    """The nodes' weights behind the last average: while they train, and as eval() makes them."""
    torch.manual_seed(0)
    first = torch.nn.Linear(4, 1)
    nodes = [copy.deepcopy(first) for _ in range(NODES)]
    optimizers = [kind(node.parameters()) for node in nodes]
    draws = [torch.Generator().manual_seed(node) for node in range(NODES)]
    for optimizer in optimizers:
        if hasattr(optimizer, "train"):
            optimizer.train()
    for step in range(STEPS):
        for node, optimizer, draw, target in zip(nodes, optimizers, draws, TARGETS):
            rows = torch.randn(8, 4, generator=draw)
            optimizer.zero_grad()
            (node(rows) - rows @ target.T).square().mean().backward()
            optimizer.step()
        if (step + 1) % PERIOD == 0:
            average(nodes)
    training = [node.weight.detach().clone() for node in nodes]
    for optimizer in optimizers:
        if hasattr(optimizer, "eval"):
            optimizer.eval()
    return training, [node.weight.detach().clone() for node in nodes]


KINDS = {
    "torch's AdamW": lambda parameters: torch.optim.AdamW(parameters, lr=0.05),
    "AdamWScheduleFree": lambda parameters: schedulefree.AdamWScheduleFree(parameters, lr=0.05),
    "RAdamScheduleFree": lambda parameters: schedulefree.RAdamScheduleFree(parameters, lr=0.05),
    "SGDScheduleFree": lambda parameters: schedulefree.SGDScheduleFree(parameters, lr=0.05),
}
print("schedulefree", version("schedulefree"), "torch", torch.__version__)
print("guess: behind an average of their parameters all nodes have one model, in training and in evaluation")
as_found = True
for name, kind in KINDS.items():
    training, evaluated = train(kind)
    apart, length = (evaluated[0] - evaluated[1]).norm().item(), training[0].norm().item()
    print(f"{name}: nodes {'equal' if torch.equal(*training) else 'unlike'} while they train, apart by {apart:.3f} behind eval(), "
          f"where the averaged weights have the length {length:.3f}")
    as_found &= torch.equal(*training)
    as_found &= apart == 0 if name == "torch's AdamW" else apart > (0.3 if name == "SGDScheduleFree" else 0.01) * length
print("as found: eval() makes unlike models of one average" if as_found else "CHANGED")
sys.exit(0 if as_found else 1)
PY
cd "$tmp" && "$tmp/venv/bin/python" check.py
