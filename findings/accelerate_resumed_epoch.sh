#!/usr/bin/env bash
# accelerate: load_state() and skip_first_batches() skip batches of another order, so samples of the resumed epoch come twice and others never.
set -eu
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
python3 -m venv "$tmp/venv"
"$tmp/venv/bin/pip" install -q accelerate==1.15.0 torch==2.13.0 numpy==2.4.6
cat >"$tmp/check.py" <<'PY'
import sys
import warnings

warnings.simplefilter("ignore")

import accelerate
import torch
from accelerate import Accelerator, DataLoaderConfiguration
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
SAMPLES, BATCH, EPOCHS, SAVED_AT = 64, 4, 3, 6  # the checkpoint is behind six mini-batches of an epoch


def program(seedable, set_epoch, saved_in, resumed):
    """What a program reads from its start, or from the checkpoint on: (epoch, mini-batch) and the samples."""
    accelerate.utils.set_seed(7)
    accelerator = Accelerator(cpu=True, dataloader_config=DataLoaderConfiguration(use_seedable_sampler=seedable))
    model = torch.nn.Linear(1, 1)
    loader = DataLoader(TensorDataset(torch.arange(SAMPLES)), batch_size=BATCH, shuffle=True)
    model, optimizer, loader = accelerator.prepare(model, torch.optim.SGD(model.parameters(), lr=0.1), loader)
    if resumed:
        accelerator.load_state("saved")
    read = {}
    for epoch in range(saved_in if resumed else 0, EPOCHS):
        skipped = SAVED_AT if resumed and epoch == saved_in else 0
        if set_epoch:
            loader.set_epoch(epoch)
        for place, (batch,) in enumerate(accelerator.skip_first_batches(loader, skipped) if skipped else loader, skipped):
            read[epoch, place] = batch.tolist()
            if not resumed and (epoch, place + 1) == (saved_in, SAVED_AT):
                accelerator.save_state("saved")
    return read


def compared(seedable, set_epoch, saved_in):
    """How many samples the interrupted epoch reads twice, and whether that and the next are as without an interruption."""
    whole, rest = (program(seedable, set_epoch, saved_in, resumed) for resumed in (False, True))
    before = {sample for (epoch, place), batch in whole.items() if (epoch, place) < (saved_in, SAVED_AT) and epoch == saved_in for sample in batch}
    behind = {sample for (epoch, _), batch in rest.items() if epoch == saved_in for sample in batch}
    same = [all(batch == whole[place] for place, batch in rest.items() if place[0] == epoch) for epoch in (saved_in, saved_in + 1)]
    return len(before & behind), SAMPLES - len(before | behind), *same


print("accelerate", accelerate.__version__, "torch", torch.__version__)
print("guess: load_state() and skip_first_batches() go on behind the checkpoint, and read no sample of that epoch twice")
as_found = True
for seedable, set_epoch in ((False, False), (False, True), (True, False), (True, True)):
    for saved_in in (0, 1):
        twice, never, this, following = compared(seedable, set_epoch, saved_in)
        print(f"use_seedable_sampler={seedable}, {'with' if set_epoch else 'without'} set_epoch(), saved in epoch {saved_in}: {twice} of {SAMPLES} samples twice,",
              f"{never} never; this epoch {'as uninterrupted' if this else 'ANOTHER'}, the next {'as uninterrupted' if following else 'ANOTHER'}")
        right = seedable and (set_epoch or saved_in == 0)
        as_found &= this == right and (twice == never == 0) == right and following == (seedable and set_epoch)
print("as found: exact with both only; by default half of what was read comes again" if as_found else "CHANGED")
sys.exit(0 if as_found else 1)
PY
cd "$tmp" && "$tmp/venv/bin/python" check.py 2>log || { tail -20 log; exit 1; }
