#!/usr/bin/env bash
# kornia: RandomBrightness adds, and RandomContrast is what ColorJitter and others call brightness.
set -eu
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
python3 -m venv "$tmp/venv"
"$tmp/venv/bin/pip" install -q kornia==0.9.0 torch==2.13.0 numpy==2.4.6
cat >"$tmp/check.py" <<'PY'
import sys

import kornia
import torch
from kornia import augmentation

torch.set_num_threads(1)
FACTOR = 0.5
WHERE = {"p": 1.0}
picture = torch.rand((2, 3, 8, 8), generator=torch.Generator().manual_seed(0)) * 0.8 + 0.1
GREY = torch.tensor([0.299, 0.587, 0.114]).reshape(3, 1, 1)  # ITU-R BT.601
mean = (picture * GREY).sum(1).mean((1, 2)).reshape(-1, 1, 1, 1)
EXPECTED = {
    "times the factor": picture * FACTOR,
    "plus the factor less one": (picture + FACTOR - 1).clamp(0, 1),
    "towards the mean": mean + FACTOR * (picture - mean),
}


def random(name, argument):
    return getattr(augmentation, name)(**{argument: (FACTOR, FACTOR)}, **WHERE)(picture)


SEEN = {
    "ColorJitter(brightness)": random("ColorJitter", "brightness"),
    "ColorJitter(contrast)": random("ColorJitter", "contrast"),
    "ColorJiggle(brightness)": random("ColorJiggle", "brightness"),
    "ColorJiggle(contrast)": random("ColorJiggle", "contrast"),
    "RandomBrightness": random("RandomBrightness", "brightness"),
    "RandomContrast": random("RandomContrast", "contrast"),
}
print("kornia", kornia.__version__, "torch", torch.__version__)
print("guess: brightness 0.5 halves each value and contrast 0.5 halves its distance to the mean, whichever class is asked")
found = {}
for name, values in SEEN.items():
    found[name] = next((what for what, expected in EXPECTED.items() if torch.allclose(values, expected, atol=1e-3)), "something else")
    print(f"{name} {FACTOR}: {found[name]}; values {values.min():.2f} to {values.max():.2f}")
TIMES, PLUS, TOWARDS = EXPECTED
as_found = list(found.values()) == [TIMES, TOWARDS, PLUS, TIMES, PLUS, TIMES]
print("as found: RandomContrast is ColorJitter's brightness, and RandomBrightness turns a half of the range black" if as_found else "CHANGED")
sys.exit(0 if as_found else 1)
PY
cd "$tmp" && "$tmp/venv/bin/python" check.py
