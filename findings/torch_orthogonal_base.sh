#!/usr/bin/env bash
# PyTorch: an orthogonal layer's initial weight is in a buffer, its parameter is the same for every seed: equal parameters, unlike models.
set -eu
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
python3 -m venv "$tmp/venv"
"$tmp/venv/bin/pip" install -q torch==2.13.0 numpy==2.4.6
cat >"$tmp/check.py" <<'PY'
import sys

import torch
from torch import nn
from torch.nn.utils.parametrizations import orthogonal

INPUTS, OUTPUTS, STEPS = 8, 3, 300
torch.manual_seed(0)
wanted = torch.linalg.qr(torch.randn(INPUTS, OUTPUTS)).Q.T  # a weight with orthonormal rows
x = torch.randn(256, INPUTS)


def node(seed):
    torch.manual_seed(seed)
    return orthogonal(nn.Linear(INPUTS, OUTPUTS, bias=False))


def loss(net):
    return (net(x) - x @ wanted.T).square().mean()


def give(source, targets, names):
    """Puts the named tensors of one model into the others, as a server does that hands out its parameters."""
    with torch.no_grad():
        for target in targets:
            of_target = target.state_dict()
            for name, tensor in source.state_dict().items():
                if name in names:
                    of_target[name].copy_(tensor)


def train(nets):
    """Synchronous: in each step all nodes take the mean of their gradients, of the same batch. The largest difference
    between their parameters, between their weights, and the worst loss."""
    optimizers = [torch.optim.SGD(net.parameters(), lr=0.2) for net in nets]
    for _ in range(STEPS):
        for net in nets:
            net.zero_grad()
            loss(net).backward()
        for parameters in zip(*(net.parameters() for net in nets)):
            mean = torch.stack([p.grad for p in parameters]).mean(0)
            for p in parameters:
                p.grad = mean.clone()
        for optimizer in optimizers:
            optimizer.step()
    return [*apart(nets), max(loss(net).item() for net in nets)]


def apart(nets):
    a, b = nets[0], nets[-1]
    return [max((p - q).abs().max().item() for p, q in zip(a.parameters(), b.parameters())), (a.weight - b.weight).abs().max().item()]


def shown(values):
    return " ".join(f"{v:.3f}" for v in values)


print("torch", torch.__version__)
print("guess: nodes of unlike seeds that take node 0's parameters have node 0's model, and train as one")
nets = [node(1), node(2)]
names = {name for name, _ in nets[0].named_parameters()}
buffers = {name for name, _ in nets[0].named_buffers()}
print("parameters:", *names, "; buffers:", *buffers)
fresh = apart(nets)
give(nets[0], nets[1:], names)
given = apart(nets)
print("largest difference of parameters, of weights: two seeds:", shown(fresh), "; with node 0's parameters:", shown(given))
ours = train(nets)
right = [node(1), node(2)]
give(right[0], right[1:], names | buffers)
theirs = train(right)
alone = train([node(1)])
print(f"after {STEPS} steps, also the worst loss: parameters given", shown(ours), "; buffers given, too:", shown(theirs),
      "; one node:", shown(alone))
saved = node(3)
give(right[0], [saved], names)
loaded = loss(saved).item()
print(f"the trained parameters in a new model: loss {loaded:.3f}")
as_found = (fresh[0] == given[0] == ours[0] == 0 and min(fresh[1], given[1], ours[1]) > 0.3 and ours[2] > 0.1
            and theirs[:2] == [0, 0] and max(theirs[2], alone[2]) < 0.001 and loaded > 0.1)
print("as found: the parameters agree at all times, the models never do, and they do not learn" if as_found else "CHANGED")
sys.exit(0 if as_found else 1)
PY
cd "$tmp" && "$tmp/venv/bin/python" check.py
