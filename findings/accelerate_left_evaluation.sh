#!/usr/bin/env bash
# accelerate: an evaluation that is left early takes the end of the epoch from the training loop's accumulation.
set -eu
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
python3 -m venv "$tmp/venv"
"$tmp/venv/bin/pip" install -q accelerate==1.15.0 torch==2.13.0 numpy==2.4.6
cat >"$tmp/check.py" <<'PY'
import sys

import accelerate
import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

BATCHES, PER_UPDATE, EPOCHS = 10, 4, 3  # an epoch is 4 + 4 + 2 mini-batches


def train(evaluate):
    """The numbers of mini-batches behind which an update was made, for each epoch, and the model."""
    torch.manual_seed(0)
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=PER_UPDATE)
    data = TensorDataset(torch.randn(BATCHES, 3))
    model = nn.Linear(3, 1)
    model, optimizer, training, validation = accelerator.prepare(
        model, torch.optim.SGD(model.parameters(), lr=0.1), DataLoader(data), DataLoader(data))
    updates = []
    for _ in range(EPOCHS):
        updates.append([])
        for number, (inputs,) in enumerate(training, 1):
            with accelerator.accumulate(model):
                accelerator.backward((model(inputs) - 1).square().mean())
                if accelerator.sync_gradients:
                    updates[-1].append(number)
                optimizer.step()
                optimizer.zero_grad()
            if number == 5:
                with torch.no_grad():
                    evaluate(model, validation)
    return updates, torch.cat([model.weight.detach().flatten(), model.bias.detach()])


def whole(model, validation):
    for inputs, in validation:
        model(inputs)


def two_batches(model, validation):
    for number, (inputs,) in enumerate(validation, 1):
        model(inputs)
        if number == 2:
            break


print("accelerate", accelerate.__version__, "torch", torch.__version__)
print("guess: evaluating, on all batches or on some, changes nothing in the training")
none, model_none = train(lambda model, validation: None)
all_of_it, model_all = train(whole)
left, model_left = train(two_batches)
print("updates behind mini-batch, no evaluation:", none)
print("an evaluation within each epoch, read to its end:", all_of_it)
print("the same, left behind two batches:", left)
print(f"the model differs by {(model_all - model_none).abs().max():.4f} and {(model_left - model_none).abs().max():.4f}")
as_found = (none == [[4, 8, 10]] * EPOCHS and all_of_it == none and torch.equal(model_all, model_none)
            and left == [[4, 8], [2, 6, 10], [4, 8]] and not torch.allclose(model_left, model_none))
print("as found: no epoch ends with an update any more, and the last gradients are lost" if as_found else "CHANGED")
sys.exit(0 if as_found else 1)
PY
cd "$tmp" && "$tmp/venv/bin/python" check.py 2>log || { tail -20 log; exit 1; }
