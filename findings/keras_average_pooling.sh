#!/usr/bin/env bash
# Keras on PyTorch: an average pooling with padding="same" counts pixels of the edge several times, so a saved model predicts otherwise.
set -eu
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
python3 -m venv "$tmp/venv"
"$tmp/venv/bin/pip" install -q keras==3.15.1 jax==0.10.2 jaxlib==0.10.2 torch==2.13.0 numpy==2.4.6
cat >"$tmp/check.py" <<'PY'
import os
import subprocess
import sys

if len(sys.argv) == 1:
    print("guess: a saved model predicts alike on each of Keras' back ends, and padding is left out of means on all of them")
    done = [subprocess.run([sys.executable, sys.argv[0], name], env=dict(os.environ, KERAS_BACKEND=name)).returncode for name in ("jax", "torch")]
    as_found = done == [10, 11]
    print("as found: where more is padded on one side, PyTorch's back end repeats the edge and counts it" if as_found else f"CHANGED: {done}")
    sys.exit(0 if as_found else 1)

import keras
import numpy as np

layers, to_numpy = keras.layers, keras.ops.convert_to_numpy


def mean_of_what_is_there(pictures, size, stride):
    """Means over the pixels under each window that belong to the picture; padding is even, and what is odd lies at the end."""
    side = pictures.shape[1]
    count = -(-side // stride)
    before = max((count - 1) * stride + size - side, 0) // 2
    spans = [slice(max(place * stride - before, 0), place * stride - before + size) for place in range(count)]
    return np.stack([np.stack([pictures[:, down, across].mean((1, 2)) for across in spans], 1) for down in spans], 1)


print("keras", keras.__version__, "on", keras.backend.backend())
random = np.random.default_rng(1)
right = {}
for side, size, stride in ((7, 3, 2), (8, 3, 1), (8, 2, 2), (8, 3, 2), (224, 3, 2), (8, 4, 1)):
    pictures = random.normal(size=(2, side, side, 3)).astype(np.float32)
    pooled = to_numpy(layers.AveragePooling2D(size, stride, padding="same")(pictures))
    off = np.abs(pooled - mean_of_what_is_there(pictures, size, stride))
    right[side, size, stride] = bool((off < 1e-5).all())
    print(f"{side} pixels, windows of {size}, stride {stride}: {'right' if right[side, size, stride] else f'off by up to {off.max():.2f}, {100 * (off > 1e-5).mean():.1f} % of the values'}")

pictures = random.normal(size=(200, 8, 8, 3)).astype(np.float32)
if keras.backend.backend() == "jax":
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.Input((8, 8, 3)), layers.Conv2D(8, 3, padding="same", activation="relu"),
                              layers.AveragePooling2D(3, 2, padding="same"), layers.Flatten(), layers.Dense(10)])
    model.save("model.keras")
    np.savez("seen.npz", pictures=pictures, answers=model.predict(pictures, verbose=0))
    sys.exit(10 if all(right.values()) else 1)
seen = np.load("seen.npz")
answers = keras.saving.load_model("model.keras").predict(seen["pictures"], verbose=0)
other = (answers.argmax(1) != seen["answers"].argmax(1)).sum()
print(f"a model saved with JAX's back end, on PyTorch's: {other} of {len(answers)} pictures are given another class")
sys.exit(11 if other and [case for case, fine in right.items() if not fine] == [(8, 3, 2), (224, 3, 2), (8, 4, 1)] else 1)
PY
cd "$tmp" && "$tmp/venv/bin/python" check.py
