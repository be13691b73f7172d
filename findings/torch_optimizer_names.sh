#!/usr/bin/env bash
# PyTorch: an optimizer that was given names saves them, and loads by position all the same.
set -eu
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
python3 -m venv "$tmp/venv"
"$tmp/venv/bin/pip" install -q torch==2.13.0 numpy==2.4.6
cat >"$tmp/check.py" <<'PY'
import sys

import torch
from torch import nn

WIDTH, RATE = 4, 0.001


class Block(nn.Module):
    """Two layers of one shape; `swapped` only changes the order in which they are written down."""

    def __init__(self, swapped):
        super().__init__()
        names = ["attention", "output"]
        for name in reversed(names) if swapped else names:
            setattr(self, name, nn.Linear(WIDTH, WIDTH, bias=False))

    def forward(self, inputs):
        return 100 * self.attention(inputs) + self.output(inputs)


def step(model, optimizer):
    optimizer.zero_grad()
    model(torch.ones(1, WIDTH)).sum().backward()
    optimizer.step()


def optimizer_of(model):
    return torch.optim.SGD(model.named_parameters(), lr=RATE, momentum=0.9)


def momentum(model, optimizer):
    return {name: round(optimizer.state[weight]["momentum_buffer"].mean().item(), 3) for name, weight in sorted(model.named_parameters())}


print("torch", torch.__version__)
print("guess: a checkpoint that names the parameters of its momentum is loaded by name, or refused where names differ")
old = Block(swapped=False)
optimizer = optimizer_of(old)
step(old, optimizer)
model_state, optimizer_state = old.state_dict(), optimizer.state_dict()
print("saved names:", optimizer_state["param_groups"][0]["param_names"], "momentum:", momentum(old, optimizer))
new = Block(swapped=True)
resumed = optimizer_of(new)
new.load_state_dict(model_state)
resumed.load_state_dict(optimizer_state)
weights_agree = all(torch.equal(weight, new.state_dict()[name]) for name, weight in model_state.items())
print("loaded: weights agree by name:", weights_agree, "momentum:", momentum(new, resumed))
first = resumed.param_groups[0]["params"][0]
print("the group's first name is then", resumed.param_groups[0]["param_names"][0], "and its first parameter",
      next(name for name, weight in new.named_parameters() if weight is first))
swapped = momentum(new, resumed) == dict(zip(sorted(model_state), reversed(momentum(old, optimizer).values())))
before = old.output.weight.detach().clone()
step(old, optimizer)
step(new, resumed)
right, taken = ((model.output.weight - before).norm().item() for model in (old, new))
print(f"the next step of output.weight: {right:.4f} in the run that went on, {taken:.4f} in the one that was resumed")
as_found = weights_agree and swapped and taken > 40 * right
print("as found: each layer has the other's momentum, and the names are the old ones" if as_found else "CHANGED")
sys.exit(0 if as_found else 1)
PY
cd "$tmp" && "$tmp/venv/bin/python" check.py 2>log || { tail -20 log; exit 1; }
