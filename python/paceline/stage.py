"""A node's stage of a model that is cut over the nodes of a group (docs/PIPELINES.md): who computes it says how a
micro-batch goes through. paceline.torch.pipeline is made of it."""

import contextlib
import ctypes
import signal
import threading
from typing import Callable, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from paceline import _library
from paceline._library import library
from paceline.worker import NOT_COUNTED, Worker, check, counted, reason_of


class Forward(NamedTuple):
    """A micro-batch on its way forward; arrays are the library's, and may not be touched after the call."""

    first: int                 # samples [first, first + samples) of the mini-batch
    samples: int
    kept: bool                 # False: they come forward once more before their way back, and nothing is to be kept
    came: Optional[np.ndarray]  # float32 (samples, floats_in); of the first stage None
    out: Optional[np.ndarray]   # (samples, floats_out), to be written; of the last stage None


class Backward(NamedTuple):
    """A micro-batch on its way back."""

    first: int
    samples: int
    divisor: int                        # gradients are of the sum of the samples' losses divided by this
    out_gradient: Optional[np.ndarray]  # of what went on; of the last stage None
    in_gradient: Optional[np.ndarray]   # of what came, to be written; of the first stage None
    gradient: np.ndarray                # of the stage's parameters, to be written, whole


class Did(NamedTuple):
    """What a way forward comes to. loss_sum, correct: of the last stage; of correct None where nobody counts."""

    kept_bytes: int = 0
    loss_sum: float = 0.0
    correct: Optional[int] = None


class Stage:
    """What a worker computes of its model. `ends`: where the parameters of each stage end in the layout. What forward and
    backward raise, step() raises. The worker's hang_timeout is for each of their calls, and for the loop between step()s."""

    def __init__(self, worker: Worker, node_stage: int, ends: Sequence[int], floats_in: int, floats_out: int,
                 forward: Callable[[Forward], Did], backward: Callable[[Backward], None]):
        self._worker, self._forward, self._backward = worker, forward, backward
        self._in, self._out = floats_in, floats_out
        self.begin, self.end = ([0, *ends])[node_stage], ends[node_stage]
        self._raised: Optional[BaseException] = None
        self._why = b""  # of what was raised, for as long as the library reads it
        # Kept for as long as the library may call them.
        self._callbacks = (_library.Take(self._called(self._go_forward)), _library.Take(self._called(self._go_back)))
        stage = _library.Stage((ctypes.c_int64 * len(ends))(*ends), len(ends), floats_in, floats_out, *self._callbacks, None)
        check(library.paceline_on_stage(worker._open(), ctypes.byref(stage)))
        self._interrupted = False
        self._on_wait = _library.OnWait(lambda _: int(self._interrupted))
        check(library.paceline_on_wait(worker._open(), self._on_wait, None))

    def step(self, samples: int) -> Tuple[float, Optional[int], int]:
        """The round's mini-batch through the stages; finish() follows, with these: the mean loss, and of this worker's share
        how many are correct (None: nobody counts), and how many there are. Errors: Error; what forward or backward raises."""
        metric = _library.Metric()
        self._worker.unwatch()
        with self._interruptible():
            code = library.paceline_step_stages(self._worker._open(), samples, ctypes.byref(metric))
        self._worker.watch()
        raised, self._raised = self._raised, None
        if raised is not None:
            raise raised
        check(code)
        return metric.loss_sum / metric.samples, None if metric.correct == NOT_COUNTED else metric.correct, metric.samples

    @contextlib.contextmanager
    def _interruptible(self):
        """Ctrl-C ends a wait for another stage. What Python raises for it could come where a callback begins, and be lost
        there: so it is noted, and raised after the call."""
        usual = threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGINT) is signal.default_int_handler
        if usual:
            signal.signal(signal.SIGINT, self._interrupt)
        try:
            yield
        finally:
            if usual:
                signal.signal(signal.SIGINT, signal.default_int_handler)
        if self._interrupted:
            raise KeyboardInterrupt

    def _interrupt(self, *_):
        self._interrupted = True

    def _called(self, take):
        def call(_, given):
            try:
                self._worker.watch()
                take(given[0])
                if self._interrupted:
                    raise KeyboardInterrupt
                return 0
            except BaseException as error:  # nothing may leave into C
                self._raised, self._why = error, reason_of(type(error), error).encode(errors="replace")
                given[0].why = self._why
                return 1
            finally:
                self._worker.unwatch()
        return call

    def _go_forward(self, given):
        did = self._forward(Forward(given.first, given.samples, bool(given.kept), _array(given.in_, given.samples, self._in),
                                    _array(given.out, given.samples, self._out)))
        given.kept_bytes = did.kept_bytes
        given.metric.loss_sum, given.metric.correct = did.loss_sum, counted(did.correct)

    def _go_back(self, given):
        self._backward(Backward(given.first, given.samples, given.divisor, _array(given.out_gradient, given.samples, self._out),
                                _array(given.in_gradient, given.samples, self._in),
                                _array(given.gradient, 1, self.end - self.begin)[0]))


def _array(address, samples, floats):
    if not address:
        return None
    return np.ctypeslib.as_array((ctypes.c_float * (samples * floats)).from_address(address)).reshape(samples, floats)
