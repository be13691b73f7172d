#!/usr/bin/env bash
# albumentations: all workers of a PyTorch loader draw the same augmentations, and draw them again in each epoch.
set -eu
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
python3 -m venv "$tmp/venv"
"$tmp/venv/bin/pip" install -q albumentations==2.0.8 torch==2.13.0 numpy==2.4.6
cat >"$tmp/check.py" <<'PY'
import os
import sys

os.environ["NO_ALBUMENTATIONS_UPDATE"] = "1"
import albumentations
import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

PICTURES, EPOCHS = 8, 2
RAMP = np.tile(np.arange(256, dtype=np.uint8)[None, :, None], (1, 1, 3))  # a pixel says where it was cut out


class ByAlbumentations(Dataset):
    def __init__(self, seed):
        self.cut = albumentations.Compose([albumentations.RandomCrop(1, 1)], seed=seed)

    def __len__(self):
        return PICTURES

    def __getitem__(self, _):
        return int(self.cut(image=RAMP)["image"][0, 0, 0])


class ByTorch(ByAlbumentations):
    def __getitem__(self, _):
        return int(torch.randint(256, ()))


def draws(dataset, workers, **options):
    loader = DataLoader(dataset, batch_size=1, num_workers=workers, **options)
    return [[batch.item() for batch in loader] for _ in range(EPOCHS)]


if __name__ == "__main__":
    print("albumentations", albumentations.__version__, "torch", torch.__version__)
    print(f"guess: {PICTURES} pictures in {EPOCHS} epochs get {PICTURES * EPOCHS} draws, most of them different, with any number of workers")
    seen = {
        "torch.randint, 4 workers": draws(ByTorch(None), 4),
        "no worker": draws(ByAlbumentations(None), 0),
        "4 workers": draws(ByAlbumentations(None), 4),
        "4 workers that persist": draws(ByAlbumentations(None), 4, persistent_workers=True),
        "4 workers, seed 7": draws(ByAlbumentations(7), 4),
    }
    different = {}
    for name, epochs in seen.items():
        different[name] = len(set(epochs[0] + epochs[1]))
        print(f"{name}: {different[name]} different; {epochs[0]} then {epochs[1]}")
    as_found = (min(different["torch.randint, 4 workers"], different["no worker"]) > 8
                and max(different["4 workers"], different["4 workers, seed 7"]) <= 2
                and different["4 workers that persist"] <= 4)
    print("as found: four pictures in a row share a draw, and the next epoch repeats the first" if as_found else "CHANGED")
    sys.exit(0 if as_found else 1)
PY
cd "$tmp" && "$tmp/venv/bin/python" check.py 2>log || { tail -20 log; exit 1; }
