"""What the mini-batches of a round have: how many samples, and what report() says of them."""

from typing import Optional, Tuple

import torch

_is_compiling = getattr(getattr(torch, "compiler", None), "is_compiling", lambda: False)


class RoundSamples:
    def __init__(self):
        self._position = 0
        # Of the position and of the round, those that compiled code has counted: numbers it would be compiled for, each time anew.
        self._traced = torch.zeros(2, dtype=torch.int64)
        self.forget()

    def forget(self) -> None:
        """Of the round; not of the position."""
        self._loss_sum, self._correct, self._reported = 0.0, 0, 0  # of report()
        self._samples, self._accounted = 0, 0                      # what model() was given; of it, reported
        self._traced[1] = 0

    def count_on(self, device: torch.device) -> None:
        """Where compiled code counts."""
        self._traced = self._traced.to(device)

    def saw(self, args, kwargs) -> None:
        """What model() was given: by the first dimension of its first tensor."""
        tensor = next((a for a in (*args, *kwargs.values()) if isinstance(a, torch.Tensor) and a.dim() > 0), None)
        if tensor is None:
            return
        if _is_compiling():
            self._traced += tensor.shape[0]
        else:
            self._samples += tensor.shape[0]
            self._position += tensor.shape[0]

    @property
    def position(self) -> int:
        """Samples that model() was given in training, also ahead of a resume."""
        self._take_traced()
        return self._position

    @position.setter
    def position(self, value: int) -> None:
        self._traced.zero_()
        self._position = value

    def report(self, loss, correct: Optional[int], samples: Optional[int], unseen: int) -> None:
        """unseen: how many a mini-batch has that model() was not given."""
        self._take_traced()
        if samples is None:
            samples = self._samples - self._accounted if self._samples > 0 else unseen
        self._accounted = self._samples
        samples = int(samples)
        self._reported += samples
        self._loss_sum += float(loss.detach() if isinstance(loss, torch.Tensor) else loss) * samples
        self._correct = None if correct is None or self._correct is None else self._correct + int(correct)

    def of_round(self, unseen: int) -> Tuple[float, Optional[int], int]:
        """Mean loss, correct ones and samples; and the next round begins. unseen: what it has if model() was given none."""
        self._take_traced()
        if self._samples == 0:
            self._samples = self._reported or unseen
            self._position += self._samples
        said = (self._loss_sum / self._reported, self._correct) if self._reported else (0.0, None)
        samples = self._reported or self._samples
        self.forget()
        return (*said, samples)

    def _take_traced(self):
        position, samples = self._traced.tolist()
        self._traced.zero_()
        self._position += position
        self._samples += samples
