#!/usr/bin/env bash
# MLX: a compiled evaluation keeps the weights of its first mini-batch of each size, and a compiled training step its first dropout mask.
set -eu
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
python3 -m venv "$tmp/venv"
"$tmp/venv/bin/pip" install -q "mlx[cpu]==0.32.4" numpy==2.4.6
cat >"$tmp/check.py" <<'PY'
import sys

import mlx.core as mx
import mlx.nn as nn
import mlx.optimizers as optim
import numpy as np

SAMPLES, BATCH, CLASSES = 250, 100, 5  # the last mini-batch is smaller


def data():
    mx.random.seed(1)
    x = mx.random.normal((SAMPLES, 8))
    return x, mx.argmax(x @ mx.random.normal((8, CLASSES)), axis=1)


def accuracies(answers):
    """Right answers of each mini-batch, in percent."""
    x, y = data()
    cuts = [(x[i:i + BATCH], y[i:i + BATCH]) for i in range(0, SAMPLES, BATCH)]
    return [round(100 * float((mx.argmax(answers(rows), axis=1) == labels).mean())) for rows, labels in cuts]


def train(model):
    x, y = data()
    optimizer = optim.Adam(0.02)
    gradient = nn.value_and_grad(model, lambda rows, labels: nn.losses.cross_entropy(model(rows), labels, reduction="mean"))
    for _ in range(200):
        optimizer.update(model, gradient(x, y)[1])
        mx.eval(model.parameters(), optimizer.state)


def masks(**captured):
    mx.random.seed(7)
    drop = nn.Dropout(0.5)
    step = mx.compile(lambda rows: drop(rows), **captured)
    return len({np.array(step(mx.ones((32,)))).tobytes() for _ in range(20)})


print("mlx", mx.__version__)
print("guess: a compiled function computes with the model that there is, and draws like the one that is not compiled")
mx.random.seed(0)
model = nn.Linear(8, CLASSES)
mx.eval(model.parameters())
compiled, captured = mx.compile(lambda rows: model(rows)), mx.compile(lambda rows: model(rows), inputs=model.state)
full = data()[0][:BATCH]
compiled(full), captured(full)  # an evaluation before training, of one full mini-batch
before = accuracies(model)
train(model)
after = {"not compiled": accuracies(model), "compiled": accuracies(compiled), "compiled with inputs=model.state": accuracies(captured)}
print(f"accuracy of the mini-batches before training, in percent: {before}")
for name, percent in after.items():
    print(f"behind it, {name}: {percent}")
drawn = {"compiled": masks(), "with mx.random.state in inputs and outputs": masks(inputs=[mx.random.state], outputs=[mx.random.state])}
print("different dropout masks of 20 steps:", ", ".join(f"{name} {count}" for name, count in drawn.items()))
right = after["not compiled"]
as_found = min(right) > 85 and max(before) < 60 and after["compiled with inputs=model.state"] == right
as_found &= after["compiled"] == before[:2] + right[2:]  # full mini-batches by the old weights, the smaller one by the new
as_found &= tuple(drawn.values()) == (1, 20)
print("as found: old weights, or new ones, by the mini-batch's size; and one mask" if as_found else "CHANGED")
sys.exit(0 if as_found else 1)
PY
cd "$tmp" && "$tmp/venv/bin/python" check.py
