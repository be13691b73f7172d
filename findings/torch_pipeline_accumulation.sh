#!/usr/bin/env bash
# PyTorch: each call of a pipeline schedule divides all of .grad by its number of micro-batches, also what earlier calls had left there.
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
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe, ScheduleInterleaved1F1B

STAGES, MICRO_BATCHES, CALLS, ROWS = 2, 4, 3, 8
loss_of = nn.MSELoss()


def layers(count):
    torch.manual_seed(0)
    return [nn.Linear(4, 4) for _ in range(count)]


def batches():
    draw = torch.Generator().manual_seed(1)
    return [(torch.randn(ROWS, 4, generator=draw), torch.randn(ROWS, 4, generator=draw)) for _ in range(CALLS)]


def in_one_process(count, divide):
    """Each layer's gradient, added up over the batches; before a batch's own is added, `divide` says what becomes of the sum."""
    stack = layers(count)
    model = nn.Sequential(*stack)
    for inputs, target in batches():
        own = torch.autograd.grad(loss_of(model(inputs), target), list(model.parameters()))
        for parameter, gradient in zip(model.parameters(), own):
            parameter.grad = gradient if parameter.grad is None else parameter.grad / divide + gradient
    return [layer.weight.grad for layer in stack]


def in_pipeline(rank, kind):
    """The gradients of this rank's layers, by the layer's number."""
    count = 2 * STAGES if kind is ScheduleInterleaved1F1B else STAGES
    own = {at: layer for at, layer in enumerate(layers(count)) if at % STAGES == rank}
    stages = [PipelineStage(layer, at, count, torch.device("cpu")) for at, layer in own.items()]
    schedule = kind(stages if kind is ScheduleInterleaved1F1B else stages[0], MICRO_BATCHES, loss_fn=loss_of)
    for inputs, target in batches():
        schedule.step(*([inputs] if rank == 0 else []), **({"target": target} if rank == STAGES - 1 else {}))
    return count, {at: layer.weight.grad for at, layer in own.items()}


def worker(rank):
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    dist.init_process_group("gloo", init_method="file://" + os.path.abspath("meet"), rank=rank, world_size=STAGES)
    torch.save({kind.__name__: in_pipeline(rank, kind) for kind in (ScheduleGPipe, Schedule1F1B, ScheduleInterleaved1F1B)}, f"seen{rank}")
    dist.barrier()
    dist.destroy_process_group()


def distance(gradients, others):
    return (sum((gradients[at] - others[at]).square().sum() for at in gradients) / sum(g.square().sum() for g in others)).sqrt().item()


if __name__ == "__main__":
    print("torch", torch.__version__)
    print(f"guess: without zero_grad() in between, {CALLS} calls of step() add the gradients of {CALLS} batches")
    torch.multiprocessing.spawn(worker, nprocs=STAGES)
    seen, as_found = [torch.load(f"seen{rank}") for rank in range(STAGES)], True
    for name, (count, gradients) in seen[0].items():
        gradients |= seen[1][name][1]
        summed, divided = (distance(gradients, in_one_process(count, by)) for by in (1, MICRO_BATCHES))
        as_found &= summed > 0.1 and divided < 1e-5
        print(f"{name}: off by {summed:.1%} from the sum, and by {divided:.1%} from a sum that each call divides by {MICRO_BATCHES}")
    print("as found: of the first of three batches a sixteenth is left" if as_found else "CHANGED")
    sys.exit(0 if as_found else 1)
PY
cd "$tmp" && "$tmp/venv/bin/python" check.py 2>log || { tail -20 log; exit 1; }
