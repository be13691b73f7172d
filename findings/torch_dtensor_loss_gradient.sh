#!/usr/bin/env bash
# PyTorch: of a batch that is a sharded DTensor, mse_loss and others give the right loss and as many times the gradient as there are ranks.
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

RANKS = 2
WAYS = {  # of predictions and targets between 0 and 1
    "((x - y) ** 2).mean()": lambda x, y: ((x - y) ** 2).mean(),
    "l1_loss": F.l1_loss,
    "binary_cross_entropy_with_logits": F.binary_cross_entropy_with_logits,
    "mse_loss, reduction sum": lambda x, y: F.mse_loss(x, y, reduction="sum"),
    "mse_loss": F.mse_loss,
    "huber_loss": F.huber_loss,
    "smooth_l1_loss": F.smooth_l1_loss,
    "binary_cross_entropy": F.binary_cross_entropy,
}
WRONG = {"mse_loss", "huber_loss", "smooth_l1_loss", "binary_cross_entropy"}


def loss_and_gradient(way, rows, targets, weight):
    """The loss of sigmoid(rows @ weight), and the gradient of the weight; of tensors plain or distributed."""
    weight.requires_grad_()
    loss = way((rows @ weight).sigmoid(), targets)
    loss.backward()
    loss, gradient = (value.full_tensor() if hasattr(value, "full_tensor") else value for value in (loss, weight.grad))
    return loss.item(), gradient.norm().item()


def worker(rank):
    """Each loss of eight rows, in one process's way and with half the rows on either rank; then of seven rows."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method="file://" + os.path.abspath("meet"), rank=rank, world_size=RANKS)
    mesh = init_device_mesh("cpu", (RANKS,))
    torch.manual_seed(0)
    rows, targets, weight = torch.randn(8, 3), torch.rand(8, 1), torch.randn(3, 1)
    seen = {}
    for count in (8, 7):
        for name, way in WAYS.items():
            whole = loss_and_gradient(way, rows[:count], targets[:count], weight.clone())
            shared = loss_and_gradient(way, distribute_tensor(rows[:count].contiguous(), mesh, [Shard(0)]),
                                       distribute_tensor(targets[:count].contiguous(), mesh, [Shard(0)]),
                                       distribute_tensor(weight.clone(), mesh, [Replicate()]))
            seen[f"{count} rows, {name}"] = [ours / theirs for ours, theirs in zip(shared, whole)]
    if rank == 0:
        with open("seen", "w") as file:
            json.dump(seen, file)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    print("torch", torch.__version__)
    print("guess: rows dealt to two ranks give the loss and the gradient of the whole batch, or an error")
    torch.multiprocessing.spawn(worker, nprocs=RANKS)
    with open("seen") as file:
        seen = json.load(file)
    for name, (loss, gradient) in seen.items():
        print(f"{name}: loss {loss:.4f} times the whole batch's, gradient {gradient:.4f} times")
    as_found = True
    for name in WAYS:
        loss, gradient = seen[f"8 rows, {name}"]
        as_found &= abs(loss - 1) < 1e-4 and abs(gradient - (RANKS if name in WRONG else 1)) < 1e-4
        loss, gradient = seen[f"7 rows, {name}"]
        as_found &= (abs(loss - 1) > 1e-4) if name in WRONG else abs(gradient - 1) < 1e-4
    print("as found: the loss in the log is right, the step is twice as long" if as_found else "CHANGED")
    sys.exit(0 if as_found else 1)
PY
cd "$tmp" && "$tmp/venv/bin/python" check.py
