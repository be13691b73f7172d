#!/usr/bin/env bash
# PyTorch: spectral_norm divides by what its buffers say, and the mean of the nodes' buffers says far too little.
set -eu
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
python3 -m venv "$tmp/venv"
"$tmp/venv/bin/pip" install -q torch==2.13.0 numpy==2.4.6
cat >"$tmp/check.py" <<'PY'
import sys

import torch
from torch import nn
from torch.nn.utils.parametrizations import spectral_norm

torch.set_num_threads(1)
NODES, STEPS = 8, 100


def model(seed):
    torch.manual_seed(seed)
    return nn.Sequential(spectral_norm(nn.Linear(16, 16)), nn.Tanh(), spectral_norm(nn.Linear(16, 4)))


def loss(net, draw):
    inputs = torch.randn(64, 16, generator=draw)
    return (net(inputs) - inputs[:, :4]).square().mean()


def train(net, node):
    optimizer, draw = torch.optim.SGD(net.parameters(), lr=0.05), torch.Generator().manual_seed(100 + node)
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss(net, draw).backward()
        optimizer.step()


def judged(net):
    """(loss of an evaluation, largest singular value of the layers)"""
    net.eval()
    with torch.no_grad():
        value = loss(net, torch.Generator().manual_seed(0)).item()
        return value, max(torch.linalg.matrix_norm(net[layer].weight, 2).item() for layer in (0, 2))


def averaged(nets):
    mean = model(0)
    mean.load_state_dict({name: sum(net.state_dict()[name] for net in nets) / NODES for name in mean.state_dict()})
    return mean


def renewed(mean):
    """The same parameters; in training mode each look at a weight is one step of the power iteration."""
    mean.train()
    with torch.no_grad():
        for _ in range(10):
            mean(torch.zeros(1, 16))
    return mean


print("torch", torch.__version__)
print("guess: the mean of the nodes' models is about as good as they are, with no singular value far above 1, as the layer promises")
seen = {}
for name, alike in (("begins as node 0's", True), ("begins as each node made it", False)):
    nets = [model(node) for node in range(NODES)]
    first = dict(nets[0].state_dict() if alike else nets[0].named_parameters())
    for node, net in enumerate(nets):
        net.load_state_dict(first, strict=False)  # the parameters always begin as node 0's
        train(net, node)
    worst = max(judged(net) for net in nets)
    seen[name] = worst, judged(averaged(nets)), judged(renewed(averaged(nets)))
    for what, (value, norm) in zip(("the worst node", "the mean of all state", "the mean, its vectors renewed"), seen[name]):
        print(f"the buffer {name}; {what}: loss {value:.3f}, singular values to {norm:.2f}")
as_found = all(max(worst[0], new[0]) < 0.2 and max(worst[1], new[1]) < 1.5 and mean[0] > 1.0 and mean[1] > 2.0
               for worst, mean, new in seen.values())
print("as found: good models with a useless mean, and its parameters are not the cause" if as_found else "CHANGED")
sys.exit(0 if as_found else 1)
PY
cd "$tmp" && "$tmp/venv/bin/python" check.py
