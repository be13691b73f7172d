#!/usr/bin/env bash
# Ignite: the sampler that auto_dataloader() puts around one's own seeds PyTorch's global generator by the epoch's number, in each epoch.
set -eu
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
python3 -m venv "$tmp/venv"
"$tmp/venv/bin/pip" install -q pytorch-ignite==0.5.5 torch==2.13.0 numpy==2.4.6
cat >"$tmp/check.py" <<'PY'
import logging
import os
import sys
import warnings

logging.disable(logging.CRITICAL)
warnings.simplefilter("ignore")

import ignite
import ignite.distributed as idist
import torch
import torch.distributed as dist
from torch.utils.data import SubsetRandomSampler, TensorDataset

SAMPLES, RANKS, EPOCHS = 64, 2, 2
SEEDS = (1, 2)


def epochs(seed, kind):
    """What this rank draws in a run: the samples of each epoch, and the mask of a dropout behind each first batch."""
    torch.manual_seed(1000 * seed + idist.get_rank())  # a seed for each run and rank
    torch.nn.Linear(8, 8)  # the model takes its first weights from it
    data = TensorDataset(torch.arange(SAMPLES))
    loader = idist.auto_dataloader(data, batch_size=8, **({"shuffle": True} if kind == "shuffle=True" else
                                                         {"sampler": SubsetRandomSampler(range(SAMPLES))}))
    drawn = []
    for epoch in range(EPOCHS):
        loader.sampler.set_epoch(epoch)
        samples, mask = [], None
        for (batch,) in loader:
            samples += batch.tolist()
            mask = torch.nn.functional.dropout(torch.ones(64)).tolist() if mask is None else mask
        drawn.append((tuple(samples), tuple(mask)))
    return drawn


def worker(rank):
    torch.set_num_threads(1)
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(RANKS))
    dist.init_process_group("gloo", init_method="file://" + os.path.abspath("meet"), rank=rank, world_size=RANKS)
    idist.utils.sync()  # ignite finds the group
    torch.save({(kind, seed): epochs(seed, kind) for kind in ("shuffle=True", "SubsetRandomSampler") for seed in SEEDS}, f"seen{rank}")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    print("pytorch-ignite", ignite.__version__, "torch", torch.__version__)
    print("guess: a sampler draws the order of samples; what a dropout draws follows from the seed of the run and the rank")
    torch.multiprocessing.spawn(worker, nprocs=RANKS)
    seen = [torch.load(f"seen{rank}") for rank in range(RANKS)]
    as_found = True
    for kind in ("shuffle=True", "SubsetRandomSampler"):
        orders = {seen[0][kind, seed][0][0] for seed in SEEDS}
        masks = [{run[kind, seed][epoch][1] for run in seen for seed in SEEDS} for epoch in range(EPOCHS)]
        complete = all(len(set(sum((run[kind, seed][0][0] for run in seen), ()))) == SAMPLES for seed in SEEDS)
        print(f"{kind}: parts {'complete' if complete else 'INCOMPLETE'}; {len(SEEDS)} seeds give {len(orders)} orders;",
              f"{len(SEEDS)} seeds of {RANKS} ranks give {[len(of) for of in masks]} dropout masks in the epochs")
        kinds_of_masks = 1 if kind == "SubsetRandomSampler" else len(SEEDS) * RANKS
        as_found &= complete and len(orders) == 1 and all(len(of) == kinds_of_masks for of in masks)
    print("as found: the proxy seeds the global generator by the epoch's number" if as_found else "CHANGED")
    sys.exit(0 if as_found else 1)
PY
cd "$tmp" && "$tmp/venv/bin/python" check.py 2>log || { tail -20 log; exit 1; }
