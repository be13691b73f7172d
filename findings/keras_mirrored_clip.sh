#!/usr/bin/env bash
# Keras on TensorFlow: under MirroredStrategy each device clips its own part of the gradient, and the parts are added up.
set -eu
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
python3 -m venv "$tmp/venv"
"$tmp/venv/bin/pip" install -q keras==3.15.1 tensorflow-cpu==2.21.0
cat >"$tmp/check.py" <<'PY'
import os
import sys

os.environ.update(KERAS_BACKEND="tensorflow", CUDA_VISIBLE_DEVICES="", TF_CPP_MIN_LOG_LEVEL="3")

import keras
import numpy as np
import tensorflow as tf

DEVICES, LIMIT, BATCH = 4, 1.0, 8
tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * DEVICES)
rows = np.random.default_rng(0).normal(size=(BATCH, 3)).astype("float32") + 5  # rows of like direction, and far targets
targets = np.full((BATCH, 1), 100, "float32")


def step(strategy, **clip):
    """How far one step of SGD at rate 1 moves the weights from zero: the length of what was left of the gradient."""
    with strategy.scope():
        model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1, use_bias=False, kernel_initializer="zeros")])
        model.compile(keras.optimizers.SGD(1.0, **clip), "mse")
    model.fit(tf.data.Dataset.from_tensor_slices((rows, targets)).batch(BATCH), verbose=0)
    return model.get_weights()[0]


print("keras", keras.__version__, "tensorflow", tf.__version__)
print("guess: what is clipped is the batch's gradient, so a step of rate 1 is as long as the limit, on any number of devices")
one, many = tf.distribute.get_strategy(), tf.distribute.MirroredStrategy([f"CPU:{place}" for place in range(DEVICES)])


def shown(name, measure, **clip):
    lengths = [float(measure(step(strategy, **clip))) for strategy in (one, many)]
    print(f"{name}: one device {lengths[0]:.4g}, {DEVICES} devices {lengths[1]:.4g}")
    return lengths


whole = shown("not clipped", np.linalg.norm)
as_found = np.isclose(*whole, rtol=1e-5) and whole[0] > 100 * LIMIT
for name in ("clipnorm", "global_clipnorm", "clipvalue"):
    measure = np.linalg.norm if "norm" in name else lambda taken: abs(taken).max()
    as_found &= np.allclose(shown(f"{name}={LIMIT:g}", measure, **{name: LIMIT}), (LIMIT, DEVICES * LIMIT), rtol=0.02)
print("as found: each device clips its own part, and the parts are added up" if as_found else "CHANGED")
sys.exit(0 if as_found else 1)
PY
cd "$tmp" && "$tmp/venv/bin/python" check.py 2>log || { tail -20 log; exit 1; }
