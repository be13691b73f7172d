#!/usr/bin/env bash
# Keras: predict() with SwapEMAWeights leaves the average in the model, and training goes on from there.
set -eu
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
python3 -m venv "$tmp/venv"
"$tmp/venv/bin/pip" install -q keras==3.15.1 jax==0.10.2 numpy==2.4.6
cat >"$tmp/check.py" <<'PY'
import os
import sys

os.environ["KERAS_BACKEND"] = "jax"

import jax
import keras
import numpy as np

EPOCHS = 6
draw = np.random.default_rng(0)
rows = draw.normal(size=(256, 8)).astype("float32")
targets = rows @ draw.normal(size=(8, 1)).astype("float32")


class Between(keras.callbacks.Callback):
    """Behind each epoch it looks at the model by its average, as to keep pictures that it draws."""

    def __init__(self, look):
        super().__init__()
        self.look = look

    def on_epoch_end(self, epoch, logs=None):
        self.look(self.model)


def trained(look):
    """The loss in each epoch, and how far each look moved the weights of the training."""
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(1, kernel_initializer="zeros")])
    model.compile(keras.optimizers.SGD(0.02, use_ema=True, ema_momentum=0.99), "mse")
    swap, moved = keras.callbacks.SwapEMAWeights(), []

    def looked(model):
        before = model.get_weights()[0]
        look(model, swap)
        moved.append(float(np.linalg.norm(model.get_weights()[0] - before)))

    history = model.fit(rows, targets, batch_size=16, epochs=EPOCHS, shuffle=False, verbose=0, callbacks=[swap, Between(looked)])
    return history.history["loss"], moved


LOOKS = {
    "nothing": lambda model, swap: None,
    "evaluate()": lambda model, swap: model.evaluate(rows, targets, callbacks=[swap], verbose=0),
    "predict()": lambda model, swap: model.predict(rows, callbacks=[swap], verbose=0),
}
print("keras", keras.__version__, "jax", jax.__version__)
print("guess: SwapEMAWeights lends the average to what it is given to, and training goes on from its own weights")
seen = {name: trained(look) for name, look in LOOKS.items()}
for name, (losses, moved) in seen.items():
    print(f"{name} behind each epoch: losses {' '.join(f'{loss:.3g}' for loss in losses)}; weights moved by {' '.join(f'{far:.2g}' for far in moved)}")
alone = seen["nothing"][0]
as_found = np.allclose(seen["evaluate()"][0], alone) and max(seen["evaluate()"][1]) == 0
as_found &= seen["predict()"][1][0] > 0.5 and all(loss > 2.5 * own for loss, own in zip(seen["predict()"][0][1:], alone[1:]))
print("as found: predict() leaves the average in the model, and the weights of the training in the average" if as_found else "CHANGED")
sys.exit(0 if as_found else 1)
PY
cd "$tmp" && "$tmp/venv/bin/python" check.py 2>log || { tail -20 log; exit 1; }
