#!/usr/bin/env bash
# PyTorch with Gloo: reduce() to one rank leaves partial sums in the tensors of all others, so what a node measures there afterwards is not its own gradient.
set -eu
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
python3 -m venv "$tmp/venv"
"$tmp/venv/bin/pip" install -q torch==2.13.0 numpy==2.4.6
cat >"$tmp/check.py" <<'PY'
import json
import os
import sys

import torch
import torch.distributed as dist

RANKS, TO = 3, 0
SIZES = (1, 4, 100_000)


def worker(rank):
    """Rank r holds 10 to the r everywhere; the values that its tensor has behind reduce() to rank 0, by size and operation."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method="file://" + os.path.abspath("meet"), rank=rank, world_size=RANKS)
    seen = {}
    for name, operation in (("sum", dist.ReduceOp.SUM), ("mean", dist.ReduceOp.AVG)):
        for size in SIZES:
            tensor = torch.full((size,), 10.0 ** rank)
            dist.reduce(tensor, TO, op=operation)
            seen[f"{name} of {size}"] = [round(value, 2) for value in tensor.unique().tolist()]
    with open(f"rank{rank}", "w") as file:
        json.dump(seen, file)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    print("torch", torch.__version__)
    print("guess: rank 0 has the sum, 111, or the mean, 37; ranks 1 and 2 keep what they had, 10 and 100")
    torch.multiprocessing.spawn(worker, nprocs=RANKS)
    ranks = []
    for rank in range(RANKS):
        with open(f"rank{rank}") as file:
            ranks.append(json.load(file))
    for name in ranks[0]:
        print(f"{name}: values on rank 0 {ranks[0][name]}, rank 1 {ranks[1][name]}, rank 2 {ranks[2][name]}")
    as_found = all(ranks[TO][f"sum of {size}"] == [111.0] and ranks[TO][f"mean of {size}"] == [37.0] for size in SIZES)
    # Which part of a tensor holds which partial sum is the algorithm's affair; that a rank's own value is not all of it is the finding.
    as_found &= all(ranks[rank]["sum of 100000"] != [10.0 ** rank] for rank in (1, 2))
    as_found &= all(len(ranks[rank]["sum of 100000"]) > 1 for rank in (1, 2))
    as_found &= all(10.0 ** rank not in ranks[rank]["mean of 100000"] for rank in (1, 2))
    print("as found: the others' tensors are patchworks of their own values and sums with some of the ranks" if as_found else "CHANGED")
    sys.exit(0 if as_found else 1)
PY
cd "$tmp" && "$tmp/venv/bin/python" check.py
