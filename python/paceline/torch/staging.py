"""The way between a model's memory and the worker's. On a GPU it leads through page-locked memory: copies of all tensors are
asked for without waiting, run one behind another at the bus's rate, and are waited for once."""

import torch


class Direct:
    """A model in the host's memory: gradients are written where they leave from, parameters are read where they lie."""

    def outgoing(self, flat: torch.Tensor) -> torch.Tensor:
        """Where to write what is to leave from `flat`, a worker's array."""
        return flat

    def leave(self, flat: torch.Tensor, begin: int, end: int) -> None:
        """Elements [begin, end) have been written there; behind this they are in `flat`."""

    def incoming(self, flat: torch.Tensor) -> torch.Tensor:
        """Where to read what is in `flat`, until arrived()."""
        return flat

    def arrived(self) -> None:
        """All of it has been copied."""


class Pinned(Direct):
    """A model on a GPU. `floats`: of the whole layout. A buffer of that size in the host's memory."""

    def __init__(self, floats: int, device: torch.device):
        self._memory, self._device = pinned(floats), device

    def outgoing(self, flat):
        return self._memory

    def leave(self, flat, begin, end):
        wait(self._device)
        flat[begin:end].copy_(self._memory[begin:end])

    def incoming(self, flat):
        return self._memory.copy_(flat)

    def arrived(self):
        wait(self._device)


def pinned(floats: int) -> torch.Tensor:
    return torch.empty(floats, pin_memory=True)


def wait(device: torch.device) -> None:
    """For all that has been asked of the device, also to copy."""
    torch.cuda.current_stream(device).synchronize()


def is_gpu(device: torch.device) -> bool:
    return device.type == "cuda"


def way_to(device: torch.device, floats: int) -> Direct:
    """For a model on that device."""
    return Pinned(floats, device) if is_gpu(device) else Direct()
