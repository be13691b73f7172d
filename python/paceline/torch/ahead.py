"""Gradients that leave in the shadow of backward()."""

import torch

# Floats that take less to be copied, or to leave with the next ones, than to ask for it.
_FEW = 1 << 14


class Ahead:
    """Gradients that leave while backward computes the rest: from the layout's end on, as far as all are done."""

    def __init__(self, attached, tensors):
        self._attached, self._tensors = attached, tensors
        self._place = {id(t): i for i, t in enumerate(tensors)}
        self.begin()

    def begin(self):
        self._done = [not t.trained for t in self._tensors]
        self._left = {}                  # by place: the gradient as it left, and its version
        self._marks = {}                 # by place: behind its copy
        self._next = len(self._tensors)  # all from here on are final
        self._left_from = self._attached.worker.floats

    def has_left(self, t):
        place = self._place[id(t)]
        return place in self._left or place >= self._next

    def left_from(self):
        """Elements of the flat vector from here on have left."""
        return self._left_from

    def hook_of(self, t):
        place = self._place[id(t)]

        def leave(parameter):
            worker = self._attached.worker
            if worker.under_way is None:
                return
            if place in self._left:
                raise ValueError(f"parameter '{t.name}': a second gradient before step(), expected one with overlap=True "
                                 "(gradient accumulation and reentrant checkpoints need overlap=False)")
            attached, gradient = self._attached, parameter.grad
            if gradient.numel() < _FEW or not attached.way.lends(gradient):
                with torch.no_grad():
                    t.write(attached.outgoing()[t.offset:t.end], gradient)
            else:
                worker.copy_gradient(t.offset, gradient.detach().numpy())
            self._left[place] = (gradient, gradient._version)
            self._marks[place] = attached.way.mark()
            self._done[place] = True
            self._advance(attached, worker)
        return leave

    def wait(self):
        """For the copies that were still under way when the last hook looked."""
        for mark in self._marks.values():
            self._attached.way.has_come(mark, wait=True)

    def _advance(self, attached, worker):
        """As far as all are done and their copies have come: whoever waited for them here would hold up backward()."""
        while self._next > 0 and self._done[self._next - 1]:
            if self._next - 1 in self._marks and not attached.way.has_come(self._marks[self._next - 1]):
                break
            self._next -= 1
            t = self._tensors[self._next]
            if not t.trained:
                with torch.no_grad():
                    t.write(attached.outgoing()[t.offset:t.end], None)
        begin = self._tensors[self._next].offset if self._next < len(self._tensors) else worker.floats
        if self._left_from - begin >= _FEW or self._next == 0:
            attached.leave(begin, self._left_from)
            worker.final_from(begin)
            self._left_from = begin

    def check(self):
        for place, (gradient, version) in self._left.items():
            t = self._tensors[place]
            if t.parameter.grad is not gradient or gradient._version != version:
                raise ValueError(f"parameter '{t.name}': its gradient has changed after it left, expected overlap=False for "
                                 "clipping and the like")
