#!/usr/bin/env bash
# PyTorch: item(), float() and bool() of a reduced DTensor answer for this rank's shard, so a guard passes on one rank and stops another.
set -eu
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
python3 -m venv "$tmp/venv"
"$tmp/venv/bin/pip" install -q torch==2.13.0 numpy==2.4.6
cat >"$tmp/check.py" <<'PY'
import json
import os
import sys
import warnings

import torch
import torch.distributed as dist
from torch.distributed.tensor import Shard, distribute_tensor, init_device_mesh

RANKS = 2


def worker(rank):
    """Asks for figures of a gradient of four rows, two on either rank, the last of them infinite."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method="file://" + os.path.abspath("meet"), rank=rank, world_size=RANKS)
    mesh = init_device_mesh("cpu", (RANKS,))
    small = distribute_tensor(torch.tensor([1.0, 2.0, 3.0, 10.0]), mesh, [Shard(0)])
    broken = distribute_tensor(torch.tensor([1.0, 2.0, 3.0, float("inf")]), mesh, [Shard(0)])
    seen = {
        "sum().item()": small.sum().item(),
        "float(mean())": float(small.mean()),
        "max().item()": small.max().item(),
        "bool(sum() > 10)": bool(small.sum() > 10),
        "bool(isfinite().all())": bool(broken.isfinite().all()),
        "sum().full_tensor().item()": small.sum().full_tensor().item(),
    }
    with open(f"seen{rank}", "w") as file:
        json.dump(seen, file)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    print("torch", torch.__version__)
    print("guess: sum 16, mean 4, maximum 10, above 10, not finite: the same on each rank")
    torch.multiprocessing.spawn(worker, nprocs=RANKS)
    seen = []
    for rank in range(RANKS):
        with open(f"seen{rank}") as file:
            seen.append(json.load(file))
    for name, value in seen[0].items():
        print(f"{name}: rank 0 {value}, rank 1 {seen[1][name]}")
    as_found = [list(values.values()) for values in seen] == [[3.0, 1.5, 2.0, True, True, 16.0],
                                                              [13.0, 6.5, 10.0, True, False, 16.0]]
    print("as found: each rank speaks of its own half, a comparison of the whole" if as_found else "CHANGED")
    sys.exit(0 if as_found else 1)
PY
cd "$tmp" && "$tmp/venv/bin/python" check.py
