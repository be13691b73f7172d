#!/usr/bin/env bash
# PyTorch: inside of one autocast the parameters' first values are used to the end, whatever is loaded or learned meanwhile.
set -eu
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
python3 -m venv "$tmp/venv"
"$tmp/venv/bin/pip" install -q torch==2.13.0 numpy==2.4.6
cat >"$tmp/check.py" <<'PY'
import contextlib
import sys

import torch
from torch import nn

torch.manual_seed(0)
x = torch.randn(512, 8)
y = (x[:, 0] + x[:, 1] > 0).long()


def model(seed):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 2))


def low():
    return torch.autocast("cpu", torch.bfloat16)


def train(outer, inner, steps=30):
    """Losses of the first and of the last step."""
    net = model(1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.5)
    losses = []
    with outer():
        for _ in range(steps):
            with inner():
                loss = nn.functional.cross_entropy(net(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    return net, losses[0], losses[-1]


def correct(net):
    return (net(x).argmax(1) == y).sum().item()


print("torch", torch.__version__)
print("guess: autocast casts the weights that the model has now: in one block two checkpoints have two accuracies, and a loop learns")
net, first, learned = train(contextlib.nullcontext, low)
checkpoints = {"before": model(1).state_dict(), "behind": {k: v.clone() for k, v in net.state_dict().items()}}


def evaluate(outer, inner, mode):
    seen = []
    with mode(), outer():
        for values in checkpoints.values():
            net.load_state_dict(values)
            with inner():
                seen.append(correct(net))
    return seen


none = contextlib.nullcontext
apart, together = evaluate(none, low, torch.no_grad), evaluate(low, none, torch.no_grad)
inference = evaluate(low, none, torch.inference_mode)
nested = evaluate(low, low, torch.no_grad)
print("correct of 512 before and behind training, a block for each:", *apart, "; one block, no_grad:", *together,
      "; one block, inference_mode:", *inference, "; a block for each inside of another:", *nested)
_, one_first, one_last = train(low, none)
moved = train(low, none)[0][0].weight.sub(model(1)[0].weight).abs().max().item()
print(f"loss in training, a block for each step: {first:.4f} to {learned:.4f}; all in one block: {one_first:.4f} to {one_last:.4f}, "
      f"while the weights move by up to {moved:.2f}")


class Cleared(contextlib.nullcontext):
    def __enter__(self):
        torch.clear_autocast_cache()


print(f"all in one block, torch.clear_autocast_cache() in each step: {train(low, Cleared)[2]:.4f}")
as_found = (apart[1] > apart[0] + 100 and together == nested == [apart[0]] * 2 and inference == apart and learned < first / 2
            and one_first == one_last == first and moved > 0.1 and train(low, Cleared)[2] == learned)
print("as found: the second checkpoint gets the first one's accuracy, and the loss stands still" if as_found else "CHANGED")
sys.exit(0 if as_found else 1)
PY
cd "$tmp" && "$tmp/venv/bin/python" check.py
