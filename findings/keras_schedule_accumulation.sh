#!/usr/bin/env bash
# Keras: with gradient_accumulation_steps a learning rate schedule counts mini-batches, while the optimizer counts updates.
set -eu
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
python3 -m venv "$tmp/venv"
"$tmp/venv/bin/pip" install -q keras==3.15.1 jax==0.10.2 jaxlib==0.10.2 numpy==2.4.6
cat >"$tmp/check.py" <<'PY'
import sys

import jax
import keras
import numpy as np
from keras import layers, optimizers

UPDATES, ACCUMULATED = 8, 4
SLOPE = np.ones((UPDATES * ACCUMULATED, 1), np.float32)  # the loss is -w, so an update moves w by the rate


class Moves(keras.callbacks.Callback):
    """Of each mini-batch: how far it moved the one weight."""

    def on_train_begin(self, logs=None):
        self.moves, self.last = [], float(self.model.get_weights()[0][0, 0])

    def on_train_batch_end(self, batch, logs=None):
        now = float(self.model.get_weights()[0][0, 0])
        self.moves.append(round(now - self.last, 6))
        self.last = now


def train(accumulated):
    """(the rate of every update, optimizer.iterations at the end); the schedule goes from 1 to 0 in UPDATES steps."""
    schedule = optimizers.schedules.PolynomialDecay(1.0, decay_steps=UPDATES, end_learning_rate=0.0)
    model = keras.Sequential([keras.Input((1,)), layers.Dense(1, use_bias=False, kernel_initializer="zeros")])
    optimizer = optimizers.SGD(schedule, gradient_accumulation_steps=accumulated)
    model.compile(optimizer, loss=lambda wanted, given: -given)
    moves = Moves()
    batches = UPDATES * (accumulated or 1)
    model.fit(SLOPE[:batches], SLOPE[:batches], batch_size=1, shuffle=False, verbose=0, callbacks=[moves])
    step = accumulated or 1
    return moves.moves[step - 1::step], int(optimizer.iterations)


print("keras", keras.__version__, "jax", jax.__version__)
print(f"guess: {UPDATES} updates go through the schedule's {UPDATES} steps, however many mini-batches make an update")
seen = {accumulated: train(accumulated) for accumulated in (None, ACCUMULATED)}
for accumulated, (rates, iterations) in seen.items():
    print(f"gradient_accumulation_steps={accumulated}: optimizer.iterations {iterations}, rates", *rates)
as_found = (seen[None] == ([1.0, 0.875, 0.75, 0.625, 0.5, 0.375, 0.25, 0.125], UPDATES)
            and seen[ACCUMULATED] == ([0.625, 0.125] + [0.0] * (UPDATES - 2), UPDATES))
print("as found: the third update and all later ones have rate 0" if as_found else "CHANGED")
sys.exit(0 if as_found else 1)
PY
cd "$tmp" && HOME="$tmp" KERAS_BACKEND=jax JAX_PLATFORMS=cpu "$tmp/venv/bin/python" check.py
