#!/usr/bin/env bash
# mpi4py and PyTorch's Gloo: collectives pair places in memory, not indices, so ranks with another memory order mix up elements.
set -eu
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
python3 -m venv "$tmp/venv"
"$tmp/venv/bin/pip" install -q mpi4py==4.1.2 mpich==5.0.2 torch==2.13.0 numpy==2.4.6
cat >"$tmp/over_mpi.py" <<'PY'
"""Rank 0's matrix came out of a transposition, rank 1's did not: the same values, other strides."""
import json

import numpy as np
from mpi4py import MPI

world = MPI.COMM_WORLD
wanted = np.arange(6.0).reshape(2, 3)
own = wanted.copy() if world.rank else np.asfortranarray(wanted)
given = own.copy(order="K") if world.rank == 0 else np.zeros_like(own)
world.Bcast(given)
summed = np.empty((2, 3))
world.Allreduce(own, summed)
if world.rank == 1:
    with open("over_mpi", "w") as file:
        json.dump([MPI.Get_library_version().split()[2], given.tolist(), (summed / 2).tolist()], file)
PY
cat >"$tmp/check.py" <<'PY'
import json
import os
import sys
import warnings
from importlib.metadata import version

import numpy as np
import torch
import torch.distributed as dist


def worker(rank):
    """Rank 0's convolution is channels_last, as is usual on a GPU, and rank 1's is not: the same values, other strides."""
    warnings.simplefilter("ignore")
    dist.init_process_group("gloo", init_method="file://" + os.path.abspath("meet"), rank=rank, world_size=2)
    wanted = torch.arange(8.0).reshape(1, 2, 2, 2)
    format = torch.contiguous_format if rank else torch.channels_last
    own = wanted.clone(memory_format=format)
    given = own.clone() if rank == 0 else torch.zeros_like(own)
    dist.broadcast(given, src=0)
    summed = own.clone()
    dist.all_reduce(summed)
    if rank == 1:
        torch.save([given, summed / 2], "over_gloo")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    library, *over_mpi = json.load(open("over_mpi"))
    print("mpi4py", version("mpi4py"), "MPICH", library, "numpy", np.__version__, "torch", torch.__version__)
    print("guess: both ranks hold equal arrays, so what rank 1 gets, and the mean, is that array; or an error names the strides")
    torch.multiprocessing.spawn(worker, nprocs=2)
    as_found = True
    for name, wanted, seen in (("mpi4py", np.arange(6.0).reshape(2, 3), over_mpi),
                               ("Gloo", torch.arange(8.0).reshape(1, 2, 2, 2), torch.load("over_gloo"))):
        for what, values in zip(("broadcast", "mean by allreduce"), seen):
            flat, right = np.asarray(values).ravel(), np.asarray(wanted).ravel()
            print(f"{name}, {what}: wanted {right.tolist()}, seen {flat.tolist()}")
            as_found &= not np.array_equal(flat, right) and flat.sum() == right.sum()
    print("as found: the right values at the wrong places, with a right sum and no error" if as_found else "CHANGED")
    sys.exit(0 if as_found else 1)
PY
cd "$tmp"
"$tmp/venv/bin/mpiexec" -n 2 "$tmp/venv/bin/python" over_mpi.py
"$tmp/venv/bin/python" check.py 2>log || { tail -20 log; exit 1; }
