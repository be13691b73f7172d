"""Which buffers of a model the nodes average, and which of the others drift apart."""

from typing import Callable, List, Sequence, Union

import torch

_RUNNING = torch.nn.modules.batchnorm._NormBase  # batch norms and instance norms
_NAMED_MAX = 5  # in a warning

Buffers = Union[str, Sequence[str], Callable[[str, torch.Tensor], bool]]  # attach(buffers=…)


def is_running_statistic(module: torch.nn.Module, own_name: str, buffer: torch.Tensor) -> bool:
    """Of which a mean over nodes means something: not so of masks, tables or the state of an observer."""
    return isinstance(module, _RUNNING) and own_name in ("running_mean", "running_var") and buffer.is_floating_point()


class Averaged:
    """As attach(buffers=…) says: "mean", the running statistics; "own", none; names, these beside the running statistics; or a
    function of name and tensor, those for which it is true. They are floating point, not double. Errors: ValueError."""

    def __init__(self, buffers: Buffers):
        expected = "expected 'mean', 'own', a list of names, or a function of name and tensor"
        if isinstance(buffers, str) and buffers not in ("mean", "own"):
            raise ValueError(f"buffers: got {buffers!r}, {expected}")
        self._chooses = buffers if callable(buffers) else None
        self._running = buffers != "own"
        try:
            self._names = set() if isinstance(buffers, str) or self._chooses else set(buffers)
        except TypeError:
            raise ValueError(f"buffers: got {buffers!r}, {expected}") from None
        self.leaves_none_to_its_node = buffers == "own" or self._chooses is not None  # without having been asked
        self._there: List[str] = []

    def has(self, module: torch.nn.Module, own_name: str, name: str, buffer: torch.Tensor) -> bool:
        """Whether it is averaged: `own_name` of `module`, and `name` in the model. Errors: ValueError."""
        if not buffer.is_floating_point():
            return False
        self._there.append(name)
        if self._chooses is not None:
            is_averaged = bool(self._chooses(name, buffer))
        else:
            is_averaged = name in self._names or (self._running and is_running_statistic(module, own_name, buffer))
        if is_averaged and buffer.dtype == torch.float64:
            raise ValueError(f"buffer '{name}': got torch.float64, expected torch.float32 or narrower, as it would be rounded in each round")
        return is_averaged

    def check_names(self) -> None:
        """After the last has(): that each name was there. Errors: ValueError."""
        for name in sorted(self._names.difference(self._there), key=str):
            raise ValueError(f"buffers: got {name!r}, expected names of the model's floating point buffers: " +
                             (", ".join(self._there) or "it has none"))


class OwnBuffers:
    """The floating point buffers that a node keeps to itself, from attach() to the first step: what training changes drifts apart,
    and what it does not, as masks and tables, is one at all nodes."""

    def __init__(self, named: List):
        self._before = [(name, id(buffer), _version(buffer)) for name, buffer in named if buffer.is_floating_point()]

    def changed(self, named: List) -> str:
        """What has, for people; "" if none. `named`: as at first."""
        now = {name: (id(buffer), _version(buffer)) for name, buffer in named}
        names = [f"'{name}'" for name, *before in self._before if name in now and now[name] != tuple(before)]
        return ", ".join(names[:_NAMED_MAX]) + (f" and {len(names) - _NAMED_MAX} more" if len(names) > _NAMED_MAX else "")


def _version(buffer):
    return None if buffer.is_inference() else buffer._version
