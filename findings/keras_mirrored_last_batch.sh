#!/usr/bin/env bash
# Keras on TensorFlow: under MirroredStrategy a last batch with fewer rows than devices makes batch norms NaN, and its step too short.
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

DEVICES, BATCH = 2, 16
tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * DEVICES)
PLACES = {1: tf.distribute.get_strategy(), DEVICES: tf.distribute.MirroredStrategy([f"CPU:{place}" for place in range(DEVICES)])}
draw = np.random.default_rng(0)
rows, targets = draw.normal(size=(64, 6)).astype("float32"), draw.normal(size=(64, 1)).astype("float32")


def data(first, last):
    return tf.data.Dataset.from_tensor_slices((rows[first:last], targets[first:last])).batch(BATCH)


def model(devices, norm):
    keras.utils.set_random_seed(0)
    with PLACES[devices].scope():
        made = keras.Sequential([keras.Input((6,)), keras.layers.Dense(5), *([keras.layers.BatchNormalization()] if norm else []),
                                 keras.layers.Dense(1)])
        made.compile(keras.optimizers.SGD(0.05), "mse")
    return made


def trained(devices, samples):
    """One epoch: the loss it reports, the loss behind it, and the weights that are no numbers."""
    made = model(devices, norm=True)
    loss = made.fit(data(0, samples), verbose=0).history["loss"][0]
    bad = [weight.path.split("/")[-1] for weight in made.weights if not np.isfinite(weight.numpy()).all()]
    return loss, made.evaluate(data(0, 32), verbose=0), bad


def last_step(devices, samples):
    """How far the last batch moves the weights of a model without a norm."""
    ends = []
    for seen in (samples, (samples - 1) // BATCH * BATCH):
        made = model(devices, norm=False)
        made.fit(data(0, seen), verbose=0)
        ends.append(made.get_weights())
    return np.sqrt(sum(np.sum((new - old) ** 2) for new, old in zip(*ends)))


print("keras", keras.__version__, "tensorflow", tf.__version__)
print("guess: a last batch of one row is trained on by one of the devices, and its step is that of one device")
as_found = True
for samples in (32, 33, 34):
    for devices in PLACES:
        loss, behind, bad = trained(devices, samples)
        print(f"{samples} samples in batches of {BATCH}, {devices} device(s): loss {loss:.3f}, behind the epoch {behind:.3f}, not finite: {bad or 'nothing'}")
        broken = samples % BATCH == 1 and devices == DEVICES
        as_found &= bool(np.isfinite(loss)) and np.isnan(behind) == bool(bad) == broken
for samples in (32, 33):
    lengths = [last_step(devices, samples) for devices in PLACES]
    print(f"a last batch of {(samples - 1) % BATCH + 1}: its step has {lengths[1] / lengths[0]:.3f} of its length on one device")
    as_found &= bool(np.isclose(lengths[1] / lengths[0], 1 if samples % BATCH == 0 else 1 / DEVICES, rtol=1e-3))
print("as found: the device without rows makes the norm NaN, and counts in the mean" if as_found else "CHANGED")
sys.exit(0 if as_found else 1)
PY
cd "$tmp" && "$tmp/venv/bin/python" check.py 2>log || { tail -20 log; exit 1; }
