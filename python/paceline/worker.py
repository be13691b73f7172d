"""Worker: a training loop of any kind as a worker of a run, over numpy arrays.

    with paceline.Worker("run.yaml", node=0) as worker:
        worker.add_tensor("w", (10, 3))
        worker.start(numpy.zeros(30, numpy.float32))
        for round in worker:
            round.gradient[:] = gradient_at(round.parameters)
            worker.finish(loss=0.7, samples=32)

paceline.torch and paceline.jax are made of it.
"""

import atexit
import ctypes
import os
import re
import traceback
import weakref
from typing import Callable, Iterator, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from paceline import _library
from paceline._hang import Watch
from paceline._library import library

# How long a wait in the library lasts at most before Python looks for a Ctrl-C.
_SLICE_MS = 100
# Of a measure whose correct samples nobody has counted.
NOT_COUNTED = -1
# Addresses whose arrays are kept: a few gradients in turns, and the parameters.
_ARRAYS_MAX = 32
# How long a node that hangs may take to leave.
_LEAVE_MS = 8000

_open_workers: "weakref.WeakSet" = weakref.WeakSet()


class Error(RuntimeError):
    """What Paceline cannot do, in one line: what, where, got, expected. `code`: "INVALID_ARGUMENT", "UNAVAILABLE", …"""

    def __init__(self, code: str, text: str):
        super().__init__(text)
        self.code = code


class RunOver(Exception):
    """The run has ended, and well. Raised out of a training loop that goes on; attach() and its kin take it back."""


class Stopped(RunOver):
    """The run was stopped at its servers, in order, before its end: by Ctrl-C of paceline.launch, or a signal to a server."""


class Round(NamedTuple):
    """What a round computes with; its arrays are the worker's, and may not be touched after finish()."""

    parameters: np.ndarray  # float32, (floats,), read-only
    gradient: np.ndarray    # float32, (floats,), to be written whole
    clock: int              # rounds that this worker has completed
    iteration: int          # its place in the run
    position: int           # its mini-batch: samples [position, position + samples) of an endless data set
    samples: int


Evaluate = Callable[[np.ndarray], Tuple[float, Optional[int], int]]


def check(code: int) -> None:
    """Raises what the library says of the call that has just ended with `code`."""
    if code != _library.OK:
        raise Error(_library.CODES.get(code, str(code)), library.paceline_error().decode(errors="replace"))


def check_evaluate(evaluate) -> None:
    """Errors: ValueError for what cannot be called."""
    if evaluate is not None and not callable(evaluate):
        raise ValueError(f"evaluate: got {evaluate!r}, expected a function, or None")


def array_of(values, dtype=None) -> np.ndarray:
    """As an array over the same memory where that can be, of anything that NumPy or else DLPack can: a tensor on the CPU, a
    JAX array. Errors: those of NumPy and of who exports; a tensor that wants a gradient is to be detached."""
    return np.ascontiguousarray(_shared(values), dtype=dtype)


def _shared(values):
    if not hasattr(values, "__array__") and hasattr(values, "__dlpack__"):
        return np.from_dlpack(values)
    return np.asarray(values)


def node_of(node: Optional[int]) -> int:
    """The node's number: as given, else RANK of the environment, as torchrun and paceline.launch set it."""
    if node is not None:
        return node
    rank = _of_environment("RANK")
    if rank is None:
        raise ValueError("node: got none, expected node=…, or RANK in the environment (torchrun sets it)")
    return rank


def _of_environment(name):
    text = os.environ.get(name)
    if text is not None and not (text.isascii() and text.isdecimal()):
        raise ValueError(f"{name}: got {text!r} in the environment, expected a whole number, 0 or more")
    return None if text is None else int(text)


def check_world(worker: "Worker") -> None:
    """That there are as many nodes as the environment says (WORLD_SIZE), where it does."""
    nodes, world = worker.value("cluster.nodes"), _of_environment("WORLD_SIZE")
    if world is not None and world != most(nodes):
        raise ValueError(f"cluster.nodes: got {nodes}, expected {world}, the WORLD_SIZE of the environment")


def most(nodes: str) -> int:
    """Of cluster.nodes: "4" and "{min: 2, max: 4}" are 4."""
    return int(re.findall(r"\d+", nodes)[-1])


def version() -> str:
    """Of the library."""
    return library.paceline_version().decode()


class Worker:
    """One node of a run. One thread at a time; a process that was forked from it cannot use it.

    config: path of the run's YAML, or None with `text`, the YAML itself. overrides: "key.path=value"; of the file that
    paceline.launch was given, its command line's values count after them. node: from 0 on.
    existing: what becomes of an earlier run's files, "refuse", "replace" or "continue".
    hang_timeout: seconds that the loop may take from a begin() to the next one's call, where it does not wait for others; None: as long as
    it likes. After them the node leaves, named with this reason in the run's log, and the others go on; the process says on
    standard error where its threads are, and ends. It can be set anew, and counts from the next begin() on. Where no other thread of
    Python's can run, the process ends 10 s later, by faulthandler.dump_traceback_later(), of which it has one. A process
    that is forked from it has none.
    Errors: Error, of a configuration that is not right by file, line and key; ValueError.
    """

    def __init__(self, config: Optional[str], node: int, *, text: Optional[str] = None, overrides: Sequence[str] = (),
                 existing: str = "refuse", hang_timeout: Optional[float] = None):
        self._watch = Watch(hang_timeout, _leaving(weakref.ref(self)))
        self._handle = ctypes.c_void_p()
        self._process = os.getpid()
        self.existing = _library.existing_of(config, existing)
        options = _library.options_of(config, text, node, overrides, existing)
        check(library.paceline_open(ctypes.byref(options), ctypes.byref(self._handle)))
        self.node = node
        self.tensors: "list[tuple[str, tuple]]" = []
        self.floats = 0
        self._round = _library.Round()
        self._metric = _library.Metric()
        self._arrays: dict = {}
        self._evaluate_raised: "list[str]" = []  # by the last call, if it failed
        self._callback = None  # kept for as long as the library may call it
        self._over = False
        self._stopped: Optional[str] = None  # why the run was
        self._completed = 0
        self._under_way: Optional[Round] = None
        self._lent: list = []  # copy_gradient()'s arrays, for as long as they may be read
        _open_workers.add(self)

    @property
    def hang_timeout(self) -> Optional[float]:
        """As above."""
        return self._watch.seconds

    @hang_timeout.setter
    def hang_timeout(self, seconds: Optional[float]) -> None:
        self._watch.seconds = seconds

    def watch(self) -> None:
        """From here on the loop may take hang_timeout seconds, where there is one."""
        self._watch.start()

    def unwatch(self) -> None:
        """What follows waits for others."""
        self._watch.stop()

    def value(self, key: str) -> str:
        """The effective value of a key of the configuration, as text: "32", "null", "[1, 2]"."""
        value = ctypes.c_char_p()
        check(library.paceline_value(self._open(), key.encode(), ctypes.byref(value)))
        return (value.value or b"").decode()

    def add_tensor(self, name: str, shape: Sequence[int], *, role: str = "weight", trainable: bool = True,
                   may_be_unused: bool = False, lr_factor: float = 1.0, decay_factor: float = 1.0) -> int:
        """Appends a tensor to the layout, which is the same on all nodes; returns where it begins, in floats. role "buffer":
        what a round writes in the gradient's place is its new value; the run's goes `lr_factor` of the way there.
        may_be_unused: a round whose gradient is -0.0 all over there has none, and takes no step with it, as PyTorch without
        a gradient; no other gradient may have a -0.0 there (add 0.0)."""
        if role not in _library.ROLES:
            raise ValueError(f"tensor '{name}': role: got {role!r}, expected one of {', '.join(_library.ROLES)}")
        sizes = (ctypes.c_int64 * len(shape))(*shape)
        trained = _library.FIXED if not trainable else _library.MAY_BE_UNUSED if may_be_unused else _library.TRAINED
        check(library.paceline_add_tensor(self._open(), name.encode(), sizes, len(shape), _library.ROLES[role], trained,
                                           lr_factor, decay_factor))
        offset = self.floats
        self.tensors.append((name, tuple(shape)))
        self.floats += int(np.prod(shape, dtype=np.int64))
        return offset

    def add_network(self, network: "paceline.network.Network") -> int:  # noqa: F821
        """Appends the tensors of a built-in network; returns where they begin, in floats."""
        check(library.paceline_add_network(self._open(), network.handle()))
        offset = self.floats
        self.floats += network.floats
        return offset

    def start(self, initial: np.ndarray, evaluate: Optional[Evaluate] = None) -> None:
        """Joins the run, on threads of the library's; what goes wrong, begin() raises.

        initial: float32 (floats,), of NumPy or of what has DLPack; the run begins with those of node 0. evaluate(parameters)
        measures parameters on test data and returns (mean loss, correct or None, samples). It is called on a thread of the library's, also while this one
        computes; what it raises is printed, and said in the node's log, and the run goes on without that measure.
        """
        initial = array_of(initial, np.float32)
        check_evaluate(evaluate)
        if evaluate is not None:
            self._callback = _library.Evaluate(_called_from_c(evaluate, self._evaluate_raised, weakref.ref(self)))
            check(library.paceline_on_evaluate(self._open(), self._callback, None))
        check(library.paceline_start(self._open(), initial.ctypes.data, initial.size))

    def begin(self, timeout: Optional[float] = None) -> Optional[Round]:
        """Waits for the next round; None: the run is over, or stopped. timeout in seconds: then TimeoutError. Errors: Error."""
        handle, left_ms = self._open(), None if timeout is None else int(timeout * 1000)
        self.unwatch()
        while True:
            slice_ms = _SLICE_MS if left_ms is None else min(_SLICE_MS, left_ms)
            code = library.paceline_begin(handle, slice_ms, ctypes.byref(self._round))
            if code != _library.TIMED_OUT:
                break
            if left_ms is not None:
                left_ms -= slice_ms
                if left_ms <= 0:
                    raise TimeoutError(f"node {self.node}: no round may begin within {timeout} s")
        if code in (_library.FINISHED, _library.STOPPED):
            self._over = True
            if code == _library.STOPPED:
                self._stopped = library.paceline_error().decode(errors="replace")
            self._lent.clear()
            return None
        self._check(code)
        self._lent.clear()
        r = self._round
        self._completed = r.clock
        self._under_way = Round(self._array(r.parameters, False, r.floats), self._array(r.gradient, True, r.floats), r.clock, r.iteration,
                                r.position, r.samples)
        self.watch()
        return self._under_way

    def __iter__(self) -> Iterator[Round]:
        """Rounds until the run is over; each is to be finished before the next."""
        while True:
            round = self.begin()
            if round is None:
                return
            yield round

    def copy_gradient(self, begin: int, values: np.ndarray) -> None:
        """Elements of the gradient from `begin` on are to be `values`, float32 and contiguous, of NumPy or of what has DLPack, a -0.0 as
        0.0. A thread of the library's copies them while the loop goes on: they stay as they are until the next begin() has returned."""
        values = _shared(values)
        if values.dtype != np.float32 or not values.flags.c_contiguous:
            raise ValueError(f"values: got {values.dtype}{'' if values.flags.c_contiguous else ', not contiguous'}, expected contiguous float32")
        self._lent.append(values)
        check(library.paceline_copy_gradient(self._open(), begin, values.__array_interface__["data"][0], values.size))

    def final_from(self, begin: int) -> None:
        """Elements [begin, floats) of the gradient are final, and may leave while the rest is computed."""
        check(library.paceline_final_from(self._open(), begin))

    def finish(self, loss: float = 0.0, *, correct: Optional[int] = None, samples: Optional[int] = None) -> None:
        """The gradient is complete and leaves. loss: the mean over the mini-batch. correct: of its samples; None: nobody has counted
        them. samples: its size; None: as granted."""
        samples = self._round.samples if samples is None else samples
        self._metric.loss_sum, self._metric.correct, self._metric.samples = loss * samples, counted(correct), samples
        check(library.paceline_finish(self._open(), ctypes.byref(self._metric)))
        self._completed += 1
        self._under_way = None

    @property
    def under_way(self) -> Optional[Round]:
        """The round between begin() and finish(), if there is one."""
        return self._under_way

    @property
    def over(self) -> bool:
        """Whether the run is over, as begin() has said."""
        return self._over

    @property
    def stopped(self) -> bool:
        """Whether it is over because it was stopped before its end."""
        return self._stopped is not None

    def check_goes_on(self) -> None:
        """Raises RunOver where the run is over, Stopped where it was stopped."""
        if self.stopped:
            raise Stopped(f"the run is over: {self._stopped}")
        if self._over:
            raise RunOver("the run is over")

    def warn(self, text: str) -> None:
        """A warning in the node's log, and on standard error. After start(). Thread: any."""
        check(library.paceline_warn(self._open(), text.encode(errors="replace")))

    @property
    def clock(self) -> int:
        """Rounds that this worker has completed; of a run that goes on, those of its checkpoint, too. 0 until begin() has
        said so."""
        return self._completed

    def end(self, why: Optional[str] = None) -> bool:
        """No further round. Waits for the end of the run, or, where that goes on without this loop, leaves it: it has finished early.
        With `why` it leaves at once, is lost, and that is said of it. Returns whether the run has ended well for this node. Errors: Error."""
        handle = self._open()
        self.unwatch()
        self._under_way = None
        text = None if why is None else why.encode(errors="replace")
        try:
            while (code := library.paceline_end(handle, text, _SLICE_MS)) == _library.TIMED_OUT:
                pass
        except KeyboardInterrupt:
            library.paceline_end(handle, b"interrupted", 0)
            raise
        if code == _library.STOPPED and self._stopped is None:
            self._stopped = library.paceline_error().decode(errors="replace")
        if code in (_library.ABORTED, _library.STOPPED):
            return False
        self._check(code)
        return True

    def close(self) -> None:
        """Frees the worker; leaves the run where end() has not."""
        handle, self._handle = self._handle, ctypes.c_void_p()
        self._watch.close()
        self._arrays.clear()
        self._under_way = None
        if handle and os.getpid() == self._process:  # a forked process has none of the library's threads
            library.paceline_close(handle)
        self._lent.clear()

    def __enter__(self) -> "Worker":
        return self

    def __exit__(self, kind, error, _) -> bool:
        try:
            if kind is None or issubclass(kind, RunOver):
                self.end()
            elif self._handle:
                self._leave(kind, error)
        finally:
            self.close()
        return kind is not None and issubclass(kind, RunOver)

    def _leave(self, kind, error) -> None:
        try:
            self.end(reason_of(kind, error))
        except Error:
            pass  # the loop's own error is what is to be seen

    def __del__(self):
        if getattr(self, "_handle", None):
            self.close()

    def _check(self, code: int) -> None:
        """As check(), with what evaluate has raised where the library says that it failed."""
        try:
            check(code)
        except Error as error:
            raised = "".join(self._evaluate_raised)
            if not raised or "evaluate function failed" not in str(error):
                raise
            raise Error(error.code, f"{error}: {raised}") from None

    def _open(self) -> ctypes.c_void_p:
        if not self._handle:
            raise Error("FAILED_PRECONDITION", "the worker is closed")
        if os.getpid() != self._process:
            raise Error("FAILED_PRECONDITION", "the worker belongs to the process that this one was forked from")
        return self._handle

    def _array(self, address: int, writeable: bool, floats: int) -> np.ndarray:
        array = self._arrays.get((address, writeable))
        if array is None:
            if len(self._arrays) >= _ARRAYS_MAX:
                self._arrays.clear()
            array = np.ctypeslib.as_array((ctypes.c_float * floats).from_address(address))
            array.flags.writeable = writeable
            self._arrays[address, writeable] = array
        return array


def reason_of(kind, error) -> str:
    """Why a loop leaves that has raised this, for the run's log."""
    return "interrupted" if issubclass(kind, KeyboardInterrupt) else f"{kind.__name__}: {error}"


def _called_from_c(evaluate: Evaluate, raised: "list[str]", of: "weakref.ref"):
    def call(_, parameters, floats, metric):
        try:
            loss_sum, correct, samples = _measure(evaluate(np.ctypeslib.as_array(parameters, shape=(floats,))))
            metric[0].loss_sum, metric[0].correct, metric[0].samples = loss_sum, correct, samples
            raised.clear()
            return 0
        except BaseException as error:  # nothing may leave into C
            raised[:] = [f"{type(error).__name__}: {error}"]
            traceback.print_exc()
            worker = of()
            if worker is not None and worker._handle:
                worker.warn(f"evaluate: {raised[0]}")
            return 1
    return call


def _measure(text) -> Tuple[float, int, int]:
    try:
        loss, correct, samples = text
        return float(loss) * int(samples), counted(correct), int(samples)
    except (TypeError, ValueError):
        raise ValueError(f"evaluate: got {text!r}, expected (mean loss, correct, samples)") from None


def counted(correct):
    return NOT_COUNTED if correct is None else int(correct)


def _leaving(of: "weakref.ref") -> Callable[[str], None]:
    def leave(why):
        worker = of()
        if worker is not None and worker._handle:
            worker.warn(why)
            library.paceline_end(worker._handle, why.encode(), _LEAVE_MS)
    return leave


@atexit.register
def _close_all() -> None:
    # Before Python is taken down: the library's threads may be about to call it.
    for worker in list(_open_workers):
        worker.close()
