#!/usr/bin/env bash
# PyTorch: a distributed checkpoint that is written as one safetensors file has zero for each tensor without dimensions.
set -eu
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
python3 -m venv "$tmp/venv"
"$tmp/venv/bin/pip" install -q torch==2.13.0 safetensors==0.8.0 numpy==2.4.6
cat >"$tmp/check.py" <<'PY'
import os
import sys
import warnings

warnings.simplefilter("ignore")

import safetensors.torch
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader, HuggingFaceStorageWriter
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

RANKS = 2


class Paired(nn.Module):
    """Two encoders whose products are multiplied by a learned number, as in contrastive training of pictures and texts."""

    def __init__(self):
        super().__init__()
        self.picture, self.text = nn.Linear(6, 4), nn.Linear(5, 4)
        self.scale = nn.Parameter(torch.tensor(2.5))

    def forward(self, pictures, texts):
        return self.scale * self.picture(pictures) @ self.text(texts).T


def worker(rank):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method="file://" + os.path.abspath("meet"), rank=rank, world_size=RANKS)
    torch.manual_seed(0)
    model = Paired()
    whole = {name: value.clone() for name, value in model.state_dict().items()}
    mesh = init_device_mesh("cpu", (RANKS,))
    for encoder in (model.picture, model.text):
        fully_shard(encoder, mesh=mesh)  # the number stays as it is on each rank
    state = model.state_dict()
    for name, consolidated in (("shards", False), ("one", True)):
        dcp.save(state, storage_writer=HuggingFaceStorageWriter(name, save_distributed=True, enable_consolidation=consolidated))
        read = {key: torch.full_like(value, -1.0) for key, value in whole.items()}
        dcp.load(read, storage_reader=HuggingFaceStorageReader(name))
        if rank == 0:
            torch.save((whole, read), f"{name}.pt")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    print("torch", torch.__version__, "safetensors", safetensors.__version__)
    print("guess: a checkpoint in shards and the one file made of them hold the same values")
    torch.multiprocessing.spawn(worker, nprocs=RANKS)
    as_found = True
    for name in ("shards", "one"):
        whole, read = torch.load(f"{name}.pt")
        files = sorted(file for file in os.listdir(name) if file.endswith(".safetensors"))
        wrong = {key: f"{value.tolist()} instead of {whole[key].tolist()}" for key, value in read.items() if not torch.equal(value, whole[key])}
        print(f"{len(files)} file(s): {wrong or 'all as saved'}")
        as_found &= set(wrong) == (set() if name == "shards" else {"scale"}) and len(files) == (RANKS if name == "shards" else 1)
    torch.manual_seed(1)
    model, inputs = Paired(), (torch.randn(3, 6), torch.randn(3, 5))
    print("keys that a strict load misses:", model.load_state_dict(safetensors.torch.load_file("one/" + files[0])))
    products = model(*inputs)
    print(f"the restored model's products: {products.abs().max().item():g} at most")
    as_found &= bool((products == 0).all())
    print("as found: a tensor without dimensions is zero in the one file" if as_found else "CHANGED")
    sys.exit(0 if as_found else 1)
PY
cd "$tmp" && "$tmp/venv/bin/python" check.py 2>log || { tail -20 log; exit 1; }
