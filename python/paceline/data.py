"""A run's data for any loop: mini-batches of pictures, decoded ahead by the library's threads (docs/DATA.md), as arrays of
numpy that nobody copies.

    import paceline.data
    with paceline.data.Data("my.yaml", node=rank) as data:
        for round in worker:
            batch = data.train(round.position, round.samples)
            images = torch.from_numpy(batch.images)         # float32 (samples, 3, height, width), the same memory

Without a run, `for batch in data` gives node `rank`'s mini-batches, one after another, without an end.
"""

import atexit
import ctypes
import itertools
import logging
import os
import weakref
from typing import Iterator, NamedTuple, Optional, Sequence

import numpy as np

from paceline import _library
from paceline._library import library
from paceline.worker import Error, check

__all__ = ["Batch", "Data"]

_log = logging.getLogger("paceline.data")
_open_data: "weakref.WeakSet" = weakref.WeakSet()


class Batch(NamedTuple):
    """Arrays that stay what they are for as long as one of them is kept, and may be written to."""

    images: np.ndarray   # float32, (samples, channels, height, width), normalised
    labels: np.ndarray   # int64, (samples,): 0 to classes - 1
    indices: np.ndarray  # int64, (samples,): which of the training or test set they are


class Data:
    """The data that a run's configuration names (data:), for one of its nodes.

    config, text, overrides, node: as paceline.Worker. A configuration that names data alone will do. Mini-batches come
    from one thread at a time by train(), and from any by test(). A picture that cannot be read is named by the logger
    "paceline.data". Errors: Error.
    """

    def __init__(self, config: Optional[str], node: int = 0, *, text: Optional[str] = None, overrides: Sequence[str] = ()):
        self._handle = ctypes.c_void_p()
        self._process = os.getpid()
        options = _library.options_of(config, text, node, overrides)
        check(library.paceline_data_open(ctypes.byref(options), ctypes.byref(self._handle)))
        self.node = node
        _open_data.add(self)
        self._log_warnings()

    @property
    def train_samples(self) -> int:
        return self._about().train_samples

    @property
    def test_samples(self) -> int:
        return self._about().test_samples

    @property
    def classes(self) -> int:
        return self._about().classes

    @property
    def left_out(self) -> int:
        """Pictures that could not be read so far."""
        return self._about().left_out

    def train(self, position: int, samples: int) -> Batch:
        """The training samples [position, position + samples) of the run's endless, shuffled row, as a Round has them."""
        return self._batch(library.paceline_data_train, position, samples)

    def test(self, samples: int = 256) -> Iterator[Batch]:
        """The test set once, in order, so many at a time; those that cannot be read are left out."""
        for first in range(0, self.test_samples, samples):
            batch = self._batch(library.paceline_data_test, first, samples)
            if len(batch.labels):
                yield batch

    def batches(self, first: int = 0) -> Iterator[Batch]:
        """This node's mini-batches of train.batch_size samples from its `first`-th on, without an end."""
        about = self._about()
        if about.stride == 0:
            raise Error("FAILED_PRECONDITION", "train.share: pool gives each mini-batch to whoever comes first, expected "
                                               "train(round.position, round.samples), or share: even")
        for i in itertools.count(first):
            row, place = divmod(i, about.in_a_row)
            yield self.train(about.position + row * about.stride + place * about.batch, about.batch)

    def __iter__(self) -> Iterator[Batch]:
        return self.batches()

    def close(self) -> None:
        """Ends the library's threads. Arrays that are kept stay as they are."""
        handle, self._handle = self._handle, ctypes.c_void_p()
        if handle and os.getpid() == self._process:  # a forked process has none of the library's threads
            library.paceline_data_close(handle)

    def __enter__(self) -> "Data":
        return self

    def __exit__(self, *_) -> None:
        self.close()

    def __del__(self):
        if getattr(self, "_handle", None):
            self.close()

    def _open(self) -> ctypes.c_void_p:
        if not self._handle:
            raise Error("FAILED_PRECONDITION", "the data are closed")
        if os.getpid() != self._process:
            raise Error("FAILED_PRECONDITION", "the data belong to the process that this one was forked from")
        return self._handle

    def _about(self) -> _library.AboutData:
        about = _library.AboutData()
        check(library.paceline_data_about(self._open(), ctypes.byref(about)))
        return about

    def _log_warnings(self) -> None:
        while (line := library.paceline_data_warning(self._handle)) is not None:
            _log.warning("%s", line.decode(errors="replace"))

    def _batch(self, make, first: int, samples: int) -> Batch:
        pointer, about = ctypes.POINTER(_library.Batch)(), self._about()
        code = make(self._open(), first, samples, ctypes.byref(pointer))
        try:
            check(code)
        finally:
            self._log_warnings()
        owner, count = _OwnedBatch(pointer), pointer.contents.samples
        shape = (count, about.channels, about.height, about.width)
        return Batch(owner.array(pointer.contents.images, "<f4", shape), owner.array(pointer.contents.labels, "<i8", (count,)),
                     owner.array(pointer.contents.indices, "<i8", (count,)))


class _OwnedBatch:
    """A mini-batch of the library's, given back with the last array of it."""

    def __init__(self, pointer):
        self._release = weakref.finalize(self, library.paceline_batch_release, pointer)
        self._release.atexit = False  # the process ends anyhow, and somebody may still read

    def array(self, address: int, kind: str, shape: tuple) -> np.ndarray:
        if not all(shape):
            return np.empty(shape, kind)
        return np.asarray(_Memory(self, address, kind, shape))


class _Memory:
    """Where an array lies: numpy keeps this, and this the mini-batch."""

    def __init__(self, owner: _OwnedBatch, address: int, kind: str, shape: tuple):
        self._owner = owner
        self.__array_interface__ = {"version": 3, "data": (address, False), "typestr": kind, "shape": shape}


@atexit.register
def _close_all() -> None:
    # The library's threads are not to see it being taken down.
    for data in list(_open_data):
        data.close()
