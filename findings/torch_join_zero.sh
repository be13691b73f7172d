#!/usr/bin/env bash
# PyTorch: in Join([ddp, zero]) a rank that ran out of data steps its share of the parameters with a gradient from before, or not at all.
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
from torch import nn
from torch.distributed.algorithms.join import Join
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel

BATCHES, RATE = (8, 4), 0.1  # mini-batches of each rank; the second rank runs out after four


def layers():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 4, bias=False), nn.Linear(4, 4, bias=False))  # one parameter for each rank


def batches(rank):
    draw = torch.Generator().manual_seed(rank)
    return [torch.randn(8, 4, generator=draw) for _ in range(BATCHES[rank])]


def expected():
    """join()'s rule, in one process: who has no data adds a gradient of zero."""
    model, data = layers(), [batches(rank) for rank in range(len(BATCHES))]
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    for step in range(max(BATCHES)):
        optimizer.zero_grad()
        for own in data:
            if step < len(own):
                (model(own[step]).square().mean() / len(BATCHES)).backward()
        optimizer.step()
    return model


def train(rank, sharded, clear_early):
    model = DistributedDataParallel(layers())
    optimizer = (ZeroRedundancyOptimizer(model.parameters(), torch.optim.SGD, lr=RATE) if sharded
                 else torch.optim.SGD(model.parameters(), lr=RATE))
    second = list(model.parameters())[1]
    with Join([model, optimizer] if sharded else [model]):
        for inputs in batches(rank):
            if clear_early:
                optimizer.zero_grad()
            model(inputs).square().mean().backward()
            optimizer.step()
            last = second.detach().clone(), second.grad.clone()
            if not clear_early:
                optimizer.zero_grad()
    return [parameter.detach().clone() for parameter in model.parameters()], last


VARIANTS = {"DDP with SGD": (False, True), "with ZeRO, zero_grad() before backward()": (True, True),
            "with ZeRO, zero_grad() behind step()": (True, False)}


def worker(rank):
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    dist.init_process_group("gloo", init_method="file://" + os.path.abspath("meet"), rank=rank, world_size=len(BATCHES))
    torch.save({name: train(rank, *options) for name, options in VARIANTS.items()}, f"seen{rank}")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    print("torch", torch.__version__)
    print("guess: ZeRO spreads the optimizer's state and changes no step, within Join as without")
    torch.multiprocessing.spawn(worker, nprocs=len(BATCHES))
    seen = [torch.load(f"seen{rank}") for rank in range(len(BATCHES))]
    start, right = list(layers().parameters()), list(expected().parameters())
    # The second layer is the second rank's: where it was as that ran out, and by which gradient it had moved last.
    (left_at, gradient), (stood_at, _) = (seen[1][name][1] for name in list(VARIANTS)[1:])
    seen = [{name: end for name, (end, _) in of.items()} for of in seen]
    far = {}
    for name in VARIANTS:
        far[name] = [((p - q).norm() / (q - s).norm()).item() for p, q, s in zip(seen[0][name], right, start)]
        far[name].append(max((p - q).abs().max().item() for p, q in zip(seen[0][name], seen[1][name])))
        print("{}: first layer off by {:.1%} of its way, second layer by {:.1%}; between the ranks {:g}".format(name, *far[name]))
    first, *others = far.values()
    as_found = max(first[:2]) < 1e-5 and all(apart[2] == 0 and apart[1] > 0.1 for apart in [*others])
    early, behind = list(VARIANTS)[1:]
    again = left_at - (BATCHES[0] - BATCHES[1]) * RATE * gradient
    print("second layer: {} is {:g} from that gradient's steps, {} {:g} from where it was".format(
        early, (seen[1][early][1] - again).abs().max().item(), behind, (seen[1][behind][1] - stood_at).abs().max().item()))
    as_found &= torch.allclose(seen[1][early][1], again, atol=1e-5) and bool((seen[1][behind][1] == stood_at).all())
    print("as found: both ranks agree on a model that no gradient asked for" if as_found else "CHANGED")
    sys.exit(0 if as_found else 1)
PY
cd "$tmp" && "$tmp/venv/bin/python" check.py 2>log || { tail -20 log; exit 1; }
