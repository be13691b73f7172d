"""The way between a model's memory and the worker's. On a GPU it leads through page-locked memory: copies of all tensors are
asked for without waiting, run one after another at the bus's rate, and are waited for once."""

from typing import Any

import torch


class Direct:
    """A model in the host's memory: gradients are written where they leave from, parameters are read where they lie. So are
    those of another device, each copy of which is waited for."""

    is_late = False  # whether what is written comes later than it was asked for

    def outgoing(self, flat: torch.Tensor) -> torch.Tensor:
        """Where to write what is to leave from `flat`, a worker's array."""
        return flat

    def lends(self, gradient: torch.Tensor) -> bool:
        """Whether a worker's thread can copy it where it lies."""
        return on_host(gradient.device) and gradient.layout == torch.strided and gradient.is_contiguous()

    def mark(self) -> Any:
        """After what was asked for last: for has_come()."""

    def has_come(self, mark: Any, wait: bool = False) -> bool:
        """Whether what was asked for ahead of the mark has been written; `wait`: it has then."""
        return True

    def wait(self) -> None:
        """For all that was asked for by this thread."""

    def leave(self, flat: torch.Tensor, begin: int, end: int) -> None:
        """Elements [begin, end) have been written; after this they are in `flat`."""

    def incoming(self, flat: torch.Tensor) -> torch.Tensor:
        """Where to read what is in `flat`, until wait()."""
        return flat


class Pinned(Direct):
    """A model on a GPU. `floats`: of the whole layout. A buffer of that size in the host's memory."""

    is_late = True

    def __init__(self, floats: int, device: torch.device):
        self._memory, self._device = pinned(floats), device

    def outgoing(self, flat):
        return self._memory

    def mark(self):
        return event(self._device)

    def has_come(self, mark, wait=False):
        if wait:
            mark.synchronize()
        return wait or mark.query()

    def wait(self):
        wait(self._device)

    def leave(self, flat, begin, end):
        flat[begin:end].copy_(self._memory[begin:end])

    def incoming(self, flat):
        return self._memory.copy_(flat)


def pinned(floats: int) -> torch.Tensor:
    return torch.empty(floats, pin_memory=True)


def wait(device: torch.device) -> None:
    """For all that has been asked of the device's current stream, also to copy."""
    torch.cuda.current_stream(device).synchronize()


def event(device: torch.device) -> torch.cuda.Event:
    """After all that has been asked of the device's current stream."""
    made = torch.cuda.Event()
    made.record(torch.cuda.current_stream(device))
    return made


def is_gpu(device: torch.device) -> bool:
    """Whether copies between its memory and the host's page-locked one are waited for by mark() and wait()."""
    return device.type == "cuda"


def on_host(device: torch.device) -> bool:
    return device.type == "cpu"


def copy(to: torch.Tensor, tensor: torch.Tensor) -> None:
    """Between a model's memory and the worker's, of one shape. From or to a GPU it is asked for."""
    to.copy_(tensor, non_blocking=is_gpu(to.device) or is_gpu(tensor.device))


def way_to(device: torch.device, floats: int) -> Direct:
    """For a model on that device."""
    return Pinned(floats, device) if is_gpu(device) else Direct()
