#!/usr/bin/env bash
# torchdata: a StatefulDataLoader with a generator and no workers resumes this epoch exactly and the later ones in another order, so exact resumes are exact for one epoch.
set -eu
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
python3 -m venv "$tmp/venv"
"$tmp/venv/bin/pip" install -q torchdata==0.11.0 torch==2.13.0 numpy==2.4.6
cat >"$tmp/check.py" <<'PY'
import sys
import warnings

import torch
import torchdata
from torch.utils.data import Dataset
from torchdata.stateful_dataloader import StatefulDataLoader

warnings.simplefilter("ignore")
SAMPLES, EPOCHS, READ = 12, 3, 2


class Numbers(Dataset):
    def __len__(self):
        return SAMPLES

    def __getitem__(self, index):
        return index


def loader(workers, own_generator):
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(5) if own_generator else None
    return StatefulDataLoader(Numbers(), batch_size=2, shuffle=True, num_workers=workers, generator=generator)


def epoch(batches):
    return [sample for batch in batches for sample in batch.tolist()]


def resumed(workers, own_generator):
    """Its epochs, where a run stopped in the first behind READ batches and a new process took its state."""
    stopped = loader(workers, own_generator)
    batches = iter(stopped)
    read = [sample for _ in range(READ) for sample in next(batches).tolist()]
    state = stopped.state_dict()
    again = loader(workers, own_generator)
    again.load_state_dict(state)
    return [read + epoch(again)] + [epoch(again) for _ in range(EPOCHS - 1)]


if __name__ == "__main__":
    print("torchdata", torchdata.__version__, "torch", torch.__version__)
    print("guess: a resumed loader gives the epochs of one that ran through, as its state holds the generator's")
    seen = {}
    for workers in (0, 2):
        for own_generator in (False, True):
            through = loader(workers, own_generator)
            wanted = [epoch(through) for _ in range(EPOCHS)]
            got = resumed(workers, own_generator)
            seen[workers, own_generator] = [a == b for a, b in zip(wanted, got)]
            print(f"{workers} workers, {'a generator of its own' if own_generator else 'the global generator'}: epochs as in the "
                  f"run without a stop: {seen[workers, own_generator]}")
            if (workers, own_generator) == (0, True):
                print("  second epoch, without a stop", wanted[1], "and resumed", got[1])
    whole = [True] * EPOCHS
    as_found = seen[0, True] == [True, False, False] and seen[0, False] == seen[2, False] == seen[2, True] == whole
    print("as found: right to the end of the epoch, another order from then on" if as_found else "CHANGED")
    sys.exit(0 if as_found else 1)
PY
cd "$tmp" && "$tmp/venv/bin/python" check.py
