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
        self._guessed = 0                                          # of what was reported, without having been seen
        self._samples, self._accounted = 0, 0                      # what model() was given; of it, reported
        self._traced[1] = 0
        self.had_gradients = False  # backward() has come

    def forget_thrown_away(self, tensors) -> None:
        """Where gradients are gone without a step, as where a GradScaler leaves one out."""
        if self.had_gradients and all(t.parameter.grad is None for t in tensors if t.trained):
            self.forget()

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
        """unseen: how many a mini-batch has, as far as is known, that model() was not given."""
        self._take_traced()
        if samples is None and self._samples == 0:
            samples = unseen
            self._guessed += unseen
        elif samples is None:
            samples = self._samples - self._accounted
        self._accounted = self._samples
        samples = int(samples)
        self._reported += samples
        self._loss_sum += float(loss.detach() if isinstance(loss, torch.Tensor) else loss) * samples
        self._correct = None if correct is None or self._correct is None else self._correct + int(correct)

    def of_round(self, unseen: int) -> Tuple[float, Optional[int], int]:
        """Mean loss, correct ones and samples; and the next round begins. unseen: what it has if model() was given none."""
        self._take_traced()
        samples = self._reported - self._guessed  # of a guess, as of a report() behind step(), none where model() was given some
        if self._samples == 0:
            samples = max(self._reported, unseen) if self._guessed or not self._reported else self._reported
            self._position += samples
        samples = samples or self._samples
        loss, correct = (self._loss_sum / self._reported, self._correct) if self._reported else (0.0, None)
        if self._guessed and correct is not None and correct > samples:
            correct = None  # of more samples than were guessed
        self.forget()
        return loss, correct, samples

    def _take_traced(self):
        position, samples = self._traced.tolist()
        self._traced.zero_()
        self._position += position
        self._samples += samples
