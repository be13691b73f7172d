"""What of a model is exchanged: its tensors by name, in an order that all nodes have."""

import warnings
from typing import Dict, List, Optional

import torch
from torch.nn.parameter import is_lazy
from torch.nn.utils import parametrizations, parametrize

from paceline.torch import staging
from paceline.torch.averaged import Averaged
from paceline.torch.rules import rates_of
from paceline.worker import most

_NORMS = (torch.nn.modules.batchnorm._NormBase, torch.nn.LayerNorm, torch.nn.GroupNorm,
          *([torch.nn.RMSNorm] if hasattr(torch.nn, "RMSNorm") else []))
# By name: torch imports FSDP for those who ask for it.
_WRAPPERS = ("DistributedDataParallel", "DataParallel", "FullyShardedDataParallel")


def buffers_of_weights(model: torch.nn.Module) -> Dict[int, bool]:
    """The buffers that the weights of a model are made of, by their ids: without them its parameters are another model. They are
    those of parametrizations, and of prune and the older spectral_norm, which have "weight_mask" beside "weight_orig". True: it
    never changes. Integers are not among them."""
    found = {}
    for module in model.modules():
        if isinstance(module, parametrize.ParametrizationList):
            for each in module.modules():
                never_changes = isinstance(each, parametrizations._Orthogonal)
                found.update({id(b): never_changes for b in each._buffers.values() if _can_be_averaged(b)})
        found.update({id(b): False for name, b in module._buffers.items()
                      if _can_be_averaged(b) and name.rpartition("_")[0] + "_orig" in module._parameters})
    return found


def _can_be_averaged(buffer):
    return buffer is not None and (buffer.is_floating_point() or buffer.dtype == torch.bool)


def clean(name: str) -> str:
    """A parameter's name without what torch.compile puts into it."""
    return ".".join(segment for segment in name.split(".") if segment != "_orig_mod")


def check_is_whole(model: torch.nn.Module) -> None:
    """That nobody else averages its gradients, or has parts of it. Errors: ValueError."""
    for name, module in model.named_modules():
        if any(each.__name__ in _WRAPPERS for each in type(module).__mro__):
            raise ValueError(f"{f'module {name!r}' if name else 'model'}: got a {type(module).__name__}, expected the model itself "
                             "(model.module)")
    for name, p in model.named_parameters():
        if hasattr(p, "placements"):  # as a DTensor has
            raise ValueError(f"parameter '{clean(name)}': got a {type(p).__name__}, of which other processes have parts, expected a whole "
                             "tensor")


def role_of(module: torch.nn.Module, own_name: str) -> str:
    """What a parameter of the module is to an optimizer that treats biases and norms apart (train.optimizer.decay)."""
    if isinstance(module, _NORMS):
        return "norm"
    return "bias" if "bias" in own_name.split("_") else "weight"  # in_proj_bias, bias_ih_l0


def is_empty(p: torch.Tensor) -> bool:
    """A parameter of no element: there is nothing to exchange."""
    return not is_lazy(p) and p.numel() == 0


class Exchanged:
    """A parameter, or a buffer, and its place in the flat vector."""

    def __init__(self, name: str, module: torch.nn.Module, own_name: str, offset: int, trained: bool, fixed: bool = False):
        self.name, self.trained = name, trained
        self.parameter: Optional[torch.nn.Parameter] = module._parameters.get(own_name)
        self.is_averaged = self.parameter is None and not fixed  # a buffer, as it is in each round
        self._module, self._own_name = module, own_name
        self.offset, self.end = offset, offset + self.tensor().numel()

    def tensor(self) -> torch.Tensor:
        """Of a buffer the one that the module has now: a forward pass may put another in its place."""
        return self._module._buffers[self._own_name] if self.parameter is None else self.parameter

    def write(self, place: torch.Tensor, gradient: Optional[torch.Tensor], scale: Optional[float] = None) -> None:
        """What leaves for it, into its place: the gradient, without the loss scale; of a buffer what it is now. On a GPU it is
        asked for (staging.py)."""
        if self.is_averaged:
            staging.copy(place.view(self.tensor().shape), self.tensor())
        elif not self.trained:
            place.zero_()
        elif gradient is None:
            place.fill_(-0.0)  # a step without it, unless another node has one (may_be_unused)
        else:
            dense = gradient.to_dense() if gradient.is_sparse else gradient
            # + 0.0: a -0.0 of the gradient's own becomes 0.0, in the pass that copies it.
            if staging.on_host(dense.device):
                torch.add(dense, 0.0, out=place.view(dense.shape))
                if scale is not None:
                    place.div_(scale).add_(0.0)  # what is too small becomes a -0.0, too
            else:
                staging.copy(place.view(dense.shape), dense + 0.0 if scale is None else dense / scale + 0.0)

    def write_now(self, place: torch.Tensor, instead: Optional[torch.Tensor] = None) -> None:
        """What it is now, or what stands for it, where make_delta() needs it there. On a GPU it is asked for."""
        if self.is_averaged or (self.trained and not staging.on_host(self.parameter.device)):
            staging.copy(place.view(self.tensor().shape), self.tensor().detach() if instead is None else instead)

    def make_delta(self, place: torch.Tensor, before: torch.Tensor) -> None:
        """Of a parameter, in the place of what it is now: `before` less that, which is what has changed."""
        if self.is_averaged:
            return
        if not self.trained:
            place.zero_()
        elif staging.on_host(self.parameter.device):
            torch.sub(before.view(self.parameter.shape), self.parameter.detach(), out=place.view(self.parameter.shape))
        else:
            torch.sub(before, place, out=place)


class Model:
    """The tensors of a model and, where a server takes the steps, the ratios of its optimizer's groups."""

    def __init__(self, model: torch.nn.Module, optimizer: torch.optim.Optimizer, server_side: bool, averaged: Averaged):
        self._model, self._server_side, self._averaged = model, server_side, averaged
        groups = optimizer.param_groups
        self._group_of = {id(p): group for group in groups for p in group["params"] if not is_empty(p)}
        rates = rates_of(optimizer)
        self._rate = next((each for each in rates if each > 0), None)
        if server_side and self._rate is None:
            raise ValueError("optimizer: got no group with a learning rate above 0, expected one: the ratios of the groups' rates count")
        self._rate_of = {id(group): each for group, each in zip(groups, rates)}
        decays = [float(g.get("weight_decay", 0)) for g in groups]
        self._decay = max(decays, default=0.0)
        self.tensors: List[Exchanged] = []
        self.device: Optional[torch.device] = None
        self._where = ""

    def describe(self, worker) -> None:
        """Adds them to the worker's layout. Errors: ValueError, by the tensor."""
        share = 1.0 if worker.value("sync.combine") == "mean" else 1.0 / most(worker.value("cluster.nodes"))
        seen, of_weights = set(), buffers_of_weights(self._model)
        for module_name, module in self._model.named_modules():
            for own_name, p in module.named_parameters(recurse=False):
                if id(p) not in seen and not is_empty(p):  # tied: once
                    self._add_parameter(worker, module, module_name, own_name, p)
                seen.add(id(p))
            for own_name, buffer in module.named_buffers(recurse=False):
                name, fixed = self._named(module_name, own_name), of_weights.get(id(buffer), False)
                _check_has_shape("buffer", name, buffer)
                is_averaged = self._averaged.has(module, own_name, name, buffer)
                if (is_averaged or id(buffer) in of_weights) and id(buffer) not in seen:
                    how = {"trainable": False} if fixed else {"role": "buffer", "lr_factor": share}
                    offset = worker.add_tensor(name, buffer.shape, **how)
                    self.tensors.append(Exchanged(name, module, own_name, offset, False, fixed))
                    seen.add(id(buffer))
        self._averaged.check_names()
        if self._group_of:
            shape = tuple(next(iter(self._others())).shape)
            raise ValueError(f"optimizer: steps a tensor {shape} that is no parameter of the model, expected the model's own")
        if all(t.parameter is None for t in self.tensors):
            raise ValueError("model: has no parameter, expected at least one")
        if not any(t.trained for t in self.tensors):
            raise ValueError("optimizer: steps no parameter of the model, expected at least one: a generator gives them once only")
        trainable = [t for t in self.tensors if t.parameter is not None and t.parameter.requires_grad]
        left_out = [t.name for t in trainable if not t.trained]
        if left_out:
            warnings.warn(f"optimizer: steps {len(trainable) - len(left_out)} of {len(trainable)} trainable parameters; '{left_out[0]}' is "
                          "not among them, and stays as it is", stacklevel=4)

    def _others(self):
        return [p for group in self._group_of.values() for p in group["params"] if id(p) in self._group_of]

    @staticmethod
    def _named(module_name, own_name):
        return clean(f"{module_name}.{own_name}" if module_name else own_name)

    def _add_parameter(self, worker, module, module_name, own_name, p):
        name = self._named(module_name, own_name)
        _check_has_shape("parameter", name, p)
        if p.dtype != torch.float32:
            raise ValueError(f"parameter '{name}': got {p.dtype}, expected torch.float32")
        if self.device is not None and p.device != self.device:
            raise ValueError(f"parameter '{name}': got device {p.device}, expected {self.device}, where '{self._where}' is: "
                             "a model on one device")
        self.device, self._where = p.device, self._where or name
        group = self._group_of.pop(id(p), None)
        trained = p.requires_grad and group is not None
        factors = {}
        if trained and self._server_side:
            factors["lr_factor"] = self._rate_of[id(group)] / self._rate
            if self._decay > 0:
                factors["decay_factor"] = float(group.get("weight_decay", 0)) / self._decay
        offset = worker.add_tensor(name, p.shape, role=role_of(module, own_name), trainable=trained, may_be_unused=self._server_side, **factors)
        self.tensors.append(Exchanged(name, module, own_name, offset, trained))


def _check_has_shape(what, name, tensor):
    if is_lazy(tensor):
        raise ValueError(f"{what} '{name}': has no shape yet, expected attach() after a first forward pass, and the optimizer too")
