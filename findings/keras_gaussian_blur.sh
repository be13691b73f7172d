#!/usr/bin/env bash
# Keras: gaussian_blur called on pictures mixes columns and colours, and no rows; the same call inside of a model blurs rows and columns.
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
    print("guess: without data_format the layout is that of keras.config, so a call and a model with that call agree")
    done = [subprocess.run([sys.executable, sys.argv[0], name], env=dict(os.environ, KERAS_BACKEND=name)).returncode for name in ("jax", "torch")]
    print("as found: a plain call mixes the colours" if done == [10, 10] else f"CHANGED: {done}")
    sys.exit(0 if done == [10, 10] else 1)

import keras
import numpy as np

blur, to_numpy = keras.ops.image.gaussian_blur, keras.ops.convert_to_numpy
print("keras", keras.__version__, "on", keras.backend.backend(), "with", keras.config.image_data_format())
dot = np.zeros((1, 9, 9, 3), np.float32)
dot[0, 4, 4, 0] = 1  # one red pixel
entry = keras.Input((9, 9, 3))
results = {
    "called": blur(dot),
    "called with data_format": blur(dot, data_format="channels_last"),
    "in a model": keras.Model(entry, blur(entry))(dot),
}
spread = {}
for name, result in results.items():
    result = to_numpy(result)[0] > 1e-3
    spread[name] = int(result.any((1, 2)).sum()), int(result.any((0, 2)).sum()), int(result.any((0, 1)).sum())
    print("{}: the pixel is seen in {} rows, {} columns and {} colours".format(name, *spread[name]))
right = (3, 3, 1)
as_found = {name for name, seen in spread.items() if seen == right} == set(spread) - {"called"} and spread["called"] == (1, 3, 2)
sys.exit(10 if as_found else 1)
PY
cd "$tmp" && "$tmp/venv/bin/python" check.py
