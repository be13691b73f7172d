#!/usr/bin/env bash
# PyTorch: over a device mesh that lists ranks in an order of its own, DTensors that were made in two ways disagree, and a checkpoint has its parts exchanged.
set -eu
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
python3 -m venv "$tmp/venv"
"$tmp/venv/bin/pip" install -q torch==2.13.0 numpy==2.4.6
cat >"$tmp/check.py" <<'PY'
import os
import sys
import warnings

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import ColwiseParallel, parallelize_module

RANKS = 2
ORDERS = ([0, 1], [1, 0])


def classifier():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 4))  # four classes


def look(order):
    gathered = [torch.zeros(1) for _ in order]
    dist.all_gather(gathered, torch.tensor([float(dist.get_rank())]), group=dist.new_group(order))
    mesh = DeviceMesh("cpu", order)
    whole = torch.arange(4.0)
    dealt = distribute_tensor(whole, mesh, [Shard(0)])
    cut = distribute_tensor(whole, mesh, [Replicate()]).redistribute(mesh, [Shard(0)])

    plan = {"0": ColwiseParallel(output_layouts=Replicate())}
    parallel, alone = parallelize_module(classifier(), mesh, plan), classifier()
    rows = torch.randn(64, 8, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        classes = alone(rows).argmax(1)
        right = int((parallel(rows).argmax(1) == classes).sum())
    checkpoint = os.path.abspath("checkpoint_" + "_".join(map(str, order)))
    dcp.save(parallel.state_dict(), checkpoint_id=checkpoint)
    dist.barrier()
    loaded = {name: torch.zeros_like(value) for name, value in alone.state_dict().items()}
    dcp.load(loaded, checkpoint_id=checkpoint)
    alone.load_state_dict(loaded)
    with torch.no_grad():
        right_loaded = int((alone(rows).argmax(1) == classes).sum())
    return {"gathered": [int(value) for value in gathered], "dealt": dealt.full_tensor().tolist(),
            "cut": cut.full_tensor().tolist(), "sum": (dealt + cut).full_tensor().tolist(), "right": right,
            "right_loaded": right_loaded}


def worker(rank):
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method="file://" + os.path.abspath("meet"), rank=rank, world_size=RANKS)
    seen = [look(order) for order in ORDERS]
    if rank == 0:
        torch.save(seen, "seen")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    print("torch", torch.__version__)
    print("guess: a mesh of ranks [1, 0] gives the first part to rank 1, in every way to make a DTensor; or it is refused")
    torch.multiprocessing.spawn(worker, nprocs=RANKS)
    seen = dict(zip(("0 1", "1 0"), torch.load("seen")))
    for order, look_ in seen.items():
        print(f"ranks {order}: all_gather over such a group {look_['gathered']}; dealt {look_['dealt']}, cut of replicas "
              f"{look_['cut']}, their sum {look_['sum']}; of 64 answers the parallel classifier has {look_['right']} like a "
              f"single one, and who loads its checkpoint {look_['right_loaded']}")
    straight, turned = seen["0 1"], seen["1 0"]
    as_found = straight == {"gathered": [0, 1], "dealt": [0, 1, 2, 3], "cut": [0, 1, 2, 3], "sum": [0, 2, 4, 6],
                            "right": 64, "right_loaded": 64}
    as_found &= turned["gathered"] == [0, 1] and turned["dealt"] == [0, 1, 2, 3]
    as_found &= turned["cut"] == [2, 3, 0, 1] and turned["sum"] == [2, 4, 2, 4]
    as_found &= turned["right"] == 64 and turned["right_loaded"] < 32
    print("as found: parts are dealt by sorted ranks and counted by the mesh, and nothing is raised" if as_found else "CHANGED")
    sys.exit(0 if as_found else 1)
PY
cd "$tmp" && "$tmp/venv/bin/python" check.py
