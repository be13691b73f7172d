"""GradScaler between backward() and step(). To a fused optimizer it leaves the scale and whether any gradient is inf, and calls its
step() in any case; another's it does not call after an inf. With train.on_nan: skip an attached optimizer says that it is of the
first kind: so each of its steps closes a clock, one with an inf without a contribution, and nobody waits for this node."""

from typing import NamedTuple, Optional

import torch

_STEP_SUPPORTS_SCALING = "_step_supports_amp_scaling"  # GradScaler asks for this name


class Scaled(NamedTuple):
    """What GradScaler has left to a step()."""

    scale: Optional[float]  # what the gradients are still multiplied by; None after unscale_()
    found_inf: bool


class Scaling:
    """An optimizer's, from attach() to its end. `on_nan`: train.on_nan."""

    def __init__(self, optimizer: torch.optim.Optimizer, on_nan: str):
        self._optimizer, self._on_nan = optimizer, on_nan
        self.is_fused = getattr(optimizer, _STEP_SUPPORTS_SCALING, False)  # its own step() can divide by the scale
        if on_nan == "skip" and not self.is_fused:
            setattr(optimizer, _STEP_SUPPORTS_SCALING, True)

    def close(self) -> None:
        """The optimizer is as it was, also where its step() has raised, after which GradScaler takes nothing back."""
        for name in ("grad_scale", "found_inf"):
            vars(self._optimizer).pop(name, None)
        if not self.is_fused and _STEP_SUPPORTS_SCALING in vars(self._optimizer):
            delattr(self._optimizer, _STEP_SUPPORTS_SCALING)

    def of_step(self) -> Optional[Scaled]:
        """At the begin of step(); None: no GradScaler has called it. Errors: ValueError where the first inf would end the run."""
        scale, found = getattr(self._optimizer, "grad_scale", None), getattr(self._optimizer, "found_inf", None)
        if found is None:
            return None
        if self._on_nan != "skip":
            raise ValueError("train.on_nan: got stop with a GradScaler and a fused optimizer, expected skip: the first overflow would "
                             "end the run")
        if not self.is_fused:
            self._optimizer.grad_scale = self._optimizer.found_inf = None  # its step() takes none
        return Scaled(None if scale is None else float(scale), float(found) > 0)
