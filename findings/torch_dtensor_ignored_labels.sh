#!/usr/bin/env bash
# PyTorch: the cross_entropy of a sharded batch is the mean of the ranks' means, and NaN where one ignores all labels, though its gradient is right: a guard stops a sound run.
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
import torch.nn.functional as F
from torch.distributed.tensor import Replicate, Shard, distribute_tensor, init_device_mesh

RANKS, IGNORED = 2, -100
LABELS = {  # the first four belong to rank 0
    "all labels": [0, 1, 2, 3, 0, 1, 2, 3],
    "three ignored on rank 0": [0, IGNORED, IGNORED, IGNORED, 0, 1, 2, 3],
    "all ignored on rank 0": [IGNORED, IGNORED, IGNORED, IGNORED, 0, 1, 2, 3],
}
WEIGHTS = torch.tensor([1.0, 2.0, 3.0, 10.0])


def loss_and_gradient(rows, labels, matrix, weights):
    """The mean loss, and the gradient of the matrix, both whole."""
    matrix.requires_grad_()
    loss = F.cross_entropy(rows @ matrix, labels, weight=weights)
    loss.backward()
    return [value.full_tensor() if hasattr(value, "full_tensor") else value for value in (loss, matrix.grad)]


def worker(rank):
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method="file://" + os.path.abspath("meet"), rank=rank, world_size=RANKS)
    mesh = init_device_mesh("cpu", (RANKS,))
    torch.manual_seed(0)
    rows, matrix = torch.randn(8, 3), torch.randn(3, 4)
    seen = {}
    for name, labels in LABELS.items():
        for weights in (None, WEIGHTS):
            labels = torch.tensor(labels) if isinstance(labels, list) else labels
            whole, slope = loss_and_gradient(rows, labels, matrix.clone(), weights)
            sharded, slope_sharded = loss_and_gradient(
                distribute_tensor(rows, mesh, [Shard(0)]), distribute_tensor(labels, mesh, [Shard(0)]),
                distribute_tensor(matrix.clone(), mesh, [Replicate()]),
                None if weights is None else distribute_tensor(weights, mesh, [Replicate()]))
            apart = (slope - slope_sharded).norm() / slope.norm()
            seen[name + (", class weights" if weights is not None else "")] = [whole.item(), sharded.item(), apart.item()]
    if rank == 0:
        with open("seen", "w") as file:
            json.dump(seen, file)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    print("torch", torch.__version__)
    print("guess: loss and gradient of the whole batch, or an error, as there is for shards of unlike size")
    torch.multiprocessing.spawn(worker, nprocs=RANKS)
    with open("seen") as file:
        seen = json.load(file)
    for name, (whole, sharded, apart) in seen.items():
        print(f"{name}: one process {whole:.4f}, two ranks {sharded:.4f}, the gradients apart by {apart:.1e} of their length")
    as_found = all(apart < 1e-5 for _, _, apart in seen.values())
    for name, (whole, sharded, _) in seen.items():
        if name.startswith("all labels"):
            as_found &= abs(whole - sharded) < 1e-5
        elif name.startswith("three"):
            as_found &= abs(whole - sharded) > 0.01
        else:
            as_found &= sharded != sharded and whole == whole
    print("as found: the step is right, and its loss wrong, or NaN" if as_found else "CHANGED")
    sys.exit(0 if as_found else 1)
PY
cd "$tmp" && "$tmp/venv/bin/python" check.py
