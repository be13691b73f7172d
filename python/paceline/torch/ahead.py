"""Gradients that leave in the shadow of backward()."""

import torch

# Floats that are copied, or leave, in less time than it takes to ask for it: they wait for others.
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
        self._marks = {}                 # by place: after its copy, where a device makes it
        self._put_off = []               # tensors and gradients that are yet to be written
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
            gradient = parameter.grad
            self._left[place] = (gradient, gradient._version)
            self._done[place] = True
            self._write(place, gradient)
            self._advance(worker)
        return leave

    def _write(self, place, gradient):
        """By a thread of the library's, by a device, or later with others: one alone takes longer than it and the rest."""
        attached, t = self._attached, self._tensors[place]
        if attached.way.is_late:
            with torch.no_grad():
                t.write(attached.outgoing()[t.offset:t.end], gradient)
            self._marks[place] = attached.way.mark()
        elif gradient is not None and gradient.numel() >= _FEW and attached.way.lends(gradient):
            attached.worker.copy_gradient(t.offset, gradient.detach().numpy())
        else:
            self._put_off.append((t, gradient))

    def _write_what_was_put_off(self):
        out = self._attached.outgoing()
        with torch.no_grad():
            for t, gradient in self._put_off:
                t.write(out[t.offset:t.end], gradient)
        self._put_off.clear()

    def complete(self):
        """What the last hook left to be written, or looked for in vain."""
        self._write_what_was_put_off()
        for mark in self._marks.values():
            self._attached.way.has_come(mark, wait=True)

    def _advance(self, worker):
        """As far as all are done and their copies have come: whoever waited for them here would hold up backward()."""
        way = self._attached.way
        while self._next > 0 and self._done[self._next - 1]:
            place = self._next - 1
            if not self._tensors[place].trained and place not in self._marks:
                self._write(place, None)
            if place in self._marks and not way.has_come(self._marks[place]):
                break
            self._next = place
        begin = self._tensors[self._next].offset if self._next < len(self._tensors) else worker.floats
        if self._left_from - begin >= _FEW or self._next == 0:
            self._write_what_was_put_off()
            self._attached.leave(begin, self._left_from)
            worker.final_from(begin)
            self._left_from = begin

    def check(self):
        for place, (gradient, version) in self._left.items():
            t = self._tensors[place]
            if t.parameter.grad is not gradient or gradient._version != version:
                raise ValueError(f"parameter '{t.name}': its gradient has changed after it left, expected overlap=False for "
                                 "clipping and the like")
