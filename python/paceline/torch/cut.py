"""Where an nn.Sequential is cut into stages: what passes between its modules, and how long each takes."""

import copy
import time
from typing import List, Optional, Sequence, Tuple

import torch


def shapes_of(model: torch.nn.Sequential, example: torch.Tensor) -> List[Tuple[int, ...]]:
    """Of what each module gives, for one sample. Nothing is computed: the modules see tensors of the device meta, and their
    buffers stay as they are. Errors: ValueError for what gives no float32 tensor of as many samples, by the module."""
    x = torch.empty((2, *example.shape[1:]), dtype=example.dtype, device="meta")
    shapes = []
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        for name, module in model._modules.items():  # each that stands there more than once, too
            tensors = {n: t.detach().to("meta") for n, t in (*module.named_parameters(), *module.named_buffers())}
            try:
                x = torch.func.functional_call(module, tensors, (x,))
            except (RuntimeError, NotImplementedError, TypeError) as error:
                raise ValueError(f"module '{name}': {str(error).splitlines()[0]}, expected one that computes shapes on the device "
                                 "meta") from error
            got = f"{x.dtype} {tuple(x.shape)}" if isinstance(x, torch.Tensor) else f"a {type(x).__name__}"
            if not isinstance(x, torch.Tensor) or x.dtype != torch.float32 or x.dim() == 0 or x.shape[0] != 2:
                raise ValueError(f"module '{name}': gives {got} for 2 samples, expected one torch.float32 tensor of 2 rows")
            shapes.append(tuple(x.shape[1:]))
    return shapes


def _seconds_of(module, x, repeats, is_first):
    """Forward and back; the median of some, after one to warm up. And what it gives. Nothing goes back to the samples."""
    twin = copy.deepcopy(module)
    inputs = [p for p in twin.parameters() if p.requires_grad]
    leaf = x.detach().clone()
    if not is_first:
        inputs.append(leaf.requires_grad_())
    taken = []
    for _ in range(1 + repeats):
        given = leaf.clone()  # a module may work in place, which a leaf does not allow
        begin = time.perf_counter()
        out = twin(given)
        if out.requires_grad:
            torch.autograd.grad(out, inputs, torch.ones_like(out), allow_unused=True)
        taken.append(time.perf_counter() - begin)
    return sorted(taken[1:])[repeats // 2], out.detach()


def cut_by_costs(costs: Sequence[float], has_parameters: Sequence[bool], speeds: Sequence[float]) -> List[int]:
    """How many of them each stage has, so that the slowest stage is the fastest; each has one with parameters."""
    n, stages = len(costs), len(speeds)
    costs_to, with_to = [0.0], [0]
    for cost, has in zip(costs, has_parameters):
        costs_to.append(costs_to[-1] + cost)
        with_to.append(with_to[-1] + bool(has))
    if with_to[-1] < stages:
        raise ValueError(f"stages: got {stages}, expected at most {with_to[-1]}, the modules with parameters")
    best = [[float("inf")] * (n + 1) for _ in range(stages + 1)]
    cut = [[0] * (n + 1) for _ in range(stages + 1)]
    best[0][0] = 0.0
    for stage in range(1, stages + 1):
        for end in range(1, n + 1):
            for begin in range(end):
                if with_to[end] == with_to[begin]:
                    continue
                slowest = max(best[stage - 1][begin], (costs_to[end] - costs_to[begin]) / speeds[stage - 1])
                if slowest < best[stage][end]:
                    best[stage][end], cut[stage][end] = slowest, begin
    ends = [n]
    for stage in range(stages, 0, -1):
        ends.insert(0, cut[stage][ends[0]])
    return [end - begin for begin, end in zip(ends, ends[1:])]


def balance(model: torch.nn.Sequential, example: torch.Tensor, stages: int, speeds: Optional[Sequence[float]] = None,
            repeats: int = 5) -> List[int]:
    """How many modules of `model` each stage should have, by the time that each takes here, forward and back, for the samples of
    `example`, which is as large as a micro-batch. speeds: of the stages' nodes, as [1, 1, 2]. To be called once, and its
    result given to pipeline() on all nodes. Each module is copied for it, one at a time."""
    speeds = [1.0] * stages if speeds is None else list(speeds)
    if len(speeds) != stages or min(speeds) <= 0:
        raise ValueError(f"speeds: got {speeds}, expected {stages} above 0")
    costs, x = [], example
    with torch.random.fork_rng(devices=[]):
        for i, module in enumerate(model):
            seconds, x = _seconds_of(module, x, repeats, i == 0)
            costs.append(seconds)
    return cut_by_costs(costs, [any(True for _ in module.parameters()) for module in model], speeds)
