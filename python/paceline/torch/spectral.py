"""The vectors u, v of spectral norms (Miyato et al. 2018, section 2.1) between nodes that have taken several steps of their own.

Each look at a weight in training mode is one step of their power iteration, by that node's weights. Training draws the largest
singular values together, so the vectors of nodes turn apart as far as they can, and their mean is short: u'Wv, which the weight
is divided by, then is far too small. What a node sends instead are LOOKS looks at its weights from the vectors with which the
round began, which all nodes had: so many turn them little apart, and let them follow the weights from round to round."""

from typing import Dict, Iterator, List, Tuple

import torch
from torch.nn.utils import parametrizations, parametrize
from torch.nn.utils.spectral_norm import SpectralNorm

EVALUATIONS = 2  # of 1 the vectors follow too slowly with few local steps; the more, the shorter is the mean


def _norms(model) -> Iterator[Tuple]:
    """Of each: the module with its vectors, their names there, what looks at the weight, and the modules that it moves."""
    for module in model.modules():
        if isinstance(module, parametrize.ParametrizationList):
            for each in module:
                if isinstance(each, parametrizations._SpectralNorm) and "_u" in each._buffers:  # a vector's needs none
                    yield each, ("_u", "_v"), module, list(module.modules())
        for hook in module._forward_pre_hooks.values():
            if isinstance(hook, SpectralNorm):
                yield (module, (f"{hook.name}_u", f"{hook.name}_v"),
                       lambda module=module, hook=hook: hook.compute_weight(module, do_power_iteration=module.training), [module])


def vectors_to_send(model: torch.nn.Module, tensors: List, before: torch.Tensor) -> Dict[str, torch.Tensor]:
    """By the names of the exchanged `tensors`. `before`: what the run's were at the round's begin, all in one. The model keeps
    its own, and all else that a look at a weight with several parametrizations moves. Of modules that are not in training mode
    they are those of `before`. To be called without gradients."""
    of_buffer, found = {id(t.tensor()): t for t in tensors if t.is_averaged}, {}
    for owner, names, evaluate, moved in _norms(model):
        kept = [(m, name, buffer, buffer.clone()) for m in moved for name, buffer in m._buffers.items() if buffer is not None]
        own = {name: owner._buffers[name] for name in names}
        exchanged = {name: of_buffer[id(buffer)] for name, buffer in own.items() if id(buffer) in of_buffer}
        try:
            for name, t in exchanged.items():
                owner._buffers[name] = torch.empty_like(own[name]).copy_(before[t.offset:t.end].view(own[name].shape))
            device = own[names[0]].device
            with torch.random.fork_rng([device] if device.type == "cuda" else []), \
                    torch.autocast(device.type, enabled=False):  # whose casts of weights may be those before a step
                for _ in range(EVALUATIONS):
                    evaluate()
            found.update({t.name: owner._buffers[name] for name, t in exchanged.items()})
        finally:
            for module, name, buffer, values in kept:
                module._buffers[name] = buffer.copy_(values)
    return found
