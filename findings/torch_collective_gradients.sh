#!/usr/bin/env bash
# PyTorch: the differentiable collectives send a gradient back by the operation that went forward, so a maximum over ranks teaches every rank, and a mean that is scattered teaches too much.
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
import torch.distributed._functional_collectives as functional
import torch.distributed.nn.functional as collectives
from torch.distributed import ReduceOp

RANKS = 3  # rank r has r + 2, and its loss is (r + 1) times what it receives


def reduce_scatter(operation):
    return lambda x: collectives.reduce_scatter(torch.zeros(1), [x, 2 * x, 3 * x], op=operation)


# With the losses' factors 1, 2, 3: the gradients that ranks 0, 1, 2 should get.
CASES = {
    "all_reduce, SUM": (lambda x: collectives.all_reduce(x, op=ReduceOp.SUM), [6, 6, 6]),
    "all_reduce, AVG": (lambda x: collectives.all_reduce(x, op=ReduceOp.AVG), [2, 2, 2]),
    "all_reduce, MAX": (lambda x: collectives.all_reduce(x, op=ReduceOp.MAX), [0, 0, 6]),
    "all_reduce, MIN": (lambda x: collectives.all_reduce(x, op=ReduceOp.MIN), [6, 0, 0]),
    "all_reduce, PRODUCT": (lambda x: collectives.all_reduce(x, op=ReduceOp.PRODUCT), [72, 48, 36]),
    "reduce_scatter, SUM": (reduce_scatter(ReduceOp.SUM), [14, 14, 14]),
    "reduce_scatter, AVG": (reduce_scatter(ReduceOp.AVG), [14 / 3, 14 / 3, 14 / 3]),
    "reduce_scatter, MAX": (reduce_scatter(ReduceOp.MAX), [0, 0, 14]),
    "functional collectives, max": (lambda x: functional.all_reduce(x, "max", dist.group.WORLD), None),  # refused
}
WRONG = {  # what they get
    "all_reduce, MAX": [3, 3, 3], "all_reduce, MIN": [1, 1, 1], "all_reduce, PRODUCT": [6, 6, 6],
    "reduce_scatter, AVG": [14, 14, 14], "reduce_scatter, MAX": [14, 14, 14],
}


def worker(rank):
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method="file://" + os.path.abspath("meet"), rank=rank, world_size=RANKS)
    seen = {}
    for name, (collective, _) in CASES.items():
        mine = torch.tensor([rank + 2.0], requires_grad=True)
        try:
            received = collective(mine)
            (received * (rank + 1)).sum().backward()
            seen[name] = [received.item(), mine.grad.item()]
        except RuntimeError as error:
            seen[name] = str(error)
    with open(f"rank{rank}", "w") as file:
        json.dump(seen, file)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    print("torch", torch.__version__)
    print("guess: each rank gets the gradient of all ranks' losses by its own number, or an error where there is none")
    torch.multiprocessing.spawn(worker, nprocs=RANKS)
    ranks = []
    for rank in range(RANKS):
        with open(f"rank{rank}") as file:
            ranks.append(json.load(file))
    as_found = True
    for name, (_, wanted) in CASES.items():
        results = [seen[name] for seen in ranks]
        if wanted is None:
            print(f"{name}: {results[0]}")
            as_found &= all(isinstance(result, str) for result in results)
            continue
        got = [gradient for _, gradient in results]
        print(f"{name} of 2, 3, 4: received {[value for value, _ in results]}, gradients {got}, should be {wanted}")
        as_found &= got == WRONG.get(name, wanted)
    print("as found: wrong gradients for all but sums and the plain mean, and nothing is raised" if as_found else "CHANGED")
    sys.exit(0 if as_found else 1)
PY
cd "$tmp" && "$tmp/venv/bin/python" check.py
