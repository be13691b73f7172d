"""Network: the built-in network over numpy arrays, for a loop that brings samples and has no model of its own.

    network = paceline.Network([{"kind": "dense", "out": 32}, {"kind": "relu"}, {"kind": "dense", "out": 10}], 784)
    with paceline.Worker("run.yaml", node=0) as worker:
        worker.add_network(network)
        worker.start(network.initial())
        for round in worker:
            x, y = next(batches)
            loss, correct = network.gradient(round.parameters, x, y, round.gradient, round.position)
            worker.finish(loss, correct=correct, samples=len(y))
"""

import ctypes
import json
import os
from typing import Any, Mapping, Sequence, Tuple, Union

import numpy as np

from paceline import _library
from paceline._library import library
from paceline.worker import Error, array_of, check


class Network:
    """Layers that end in a softmax. It belongs to the thread that made it, and computes on one core.

    layers: as train.layers has them. input: numbers of a sample, or its (channels, height, width). batch_size: of the largest
    mini-batch. seed: of its first parameters and its dropout. `floats`: how many parameters; `classes`: how many labels.
    Errors: Error, by the layer.
    """

    def __init__(self, layers: Sequence[Mapping[str, Any]], input: Union[int, Sequence[int]], *, batch_size: int = 256, seed: int = 0):
        sizes = (input, 1, 1) if isinstance(input, (int, np.integer)) else tuple(input)
        if len(sizes) != 3:
            raise ValueError(f"input: got {input!r}, expected one size, or channels, height and width")
        self.input, self.batch_size = sizes, batch_size
        self._handle = ctypes.c_void_p()
        self._process = os.getpid()
        check(library.paceline_network_open(json.dumps(list(layers)).encode(), (ctypes.c_int64 * 3)(*sizes), batch_size, seed,
                                             ctypes.byref(self._handle)))
        self.floats = library.paceline_network_floats(self._handle)
        self.classes = library.paceline_network_classes(self._handle)

    def initial(self) -> np.ndarray:
        """Its first parameters: float32 (floats,), the same for the same layers and seed."""
        parameters = np.empty(self.floats, np.float32)
        check(library.paceline_network_initialize(self.handle(), parameters.ctypes.data))
        return parameters

    def gradient(self, parameters: np.ndarray, samples: np.ndarray, labels: np.ndarray, gradient: np.ndarray,
                 position: int = 0) -> Tuple[float, int]:
        """Writes the gradient of the mean loss over a mini-batch into `gradient`, float32 (floats,), with dropout; returns
        (mean loss, correct). samples: (rows, …), labels: (rows,) of 0 to classes - 1. position: of the first sample in the
        run (Round.position), by which dropout draws."""
        if not gradient.flags.c_contiguous or gradient.dtype != np.float32 or gradient.size != self.floats:
            raise ValueError(f"gradient: got {gradient.dtype} {gradient.shape}, expected float32 ({self.floats},)")
        x, y, metric = self._mini_batch(samples, labels)
        check(library.paceline_network_gradient(self.handle(), self._checked(parameters).ctypes.data, x.ctypes.data, y.ctypes.data,
                                                 len(y), position, gradient.ctypes.data, ctypes.byref(metric)))
        return metric.loss_sum / metric.samples, metric.correct

    def evaluate(self, parameters: np.ndarray, samples: np.ndarray, labels: np.ndarray) -> Tuple[float, int, int]:
        """(mean loss, correct, rows) over any number of rows, without dropout."""
        whole, parameters = _library.Metric(), self._checked(parameters)
        for begin in range(0, len(labels), self.batch_size):
            x, y, metric = self._mini_batch(samples[begin:begin + self.batch_size], labels[begin:begin + self.batch_size])
            check(library.paceline_network_evaluate(self.handle(), parameters.ctypes.data, x.ctypes.data, y.ctypes.data, len(y),
                                                     ctypes.byref(metric)))
            whole.loss_sum += metric.loss_sum
            whole.correct += metric.correct
            whole.samples += metric.samples
        if not whole.samples:
            raise ValueError("samples: got no rows, expected at least one")
        return whole.loss_sum / whole.samples, whole.correct, whole.samples

    def flat(self, tensors: Mapping[str, np.ndarray]) -> np.ndarray:
        """The parameters of a model file (paceline.read_model()) as evaluate() takes them."""
        return self._checked(np.concatenate([np.ravel(each) for each in tensors.values()]))

    def close(self) -> None:
        handle, self._handle = self._handle, ctypes.c_void_p()
        if handle and os.getpid() == self._process:
            library.paceline_network_close(handle)

    def __del__(self):
        if getattr(self, "_handle", None):
            self.close()

    def handle(self) -> ctypes.c_void_p:
        if not self._handle:
            raise Error("FAILED_PRECONDITION", "the network is closed")
        return self._handle

    def _checked(self, parameters: np.ndarray) -> np.ndarray:
        parameters = array_of(parameters, np.float32)
        if parameters.size != self.floats:
            raise ValueError(f"parameters: got {parameters.size} floats, expected {self.floats}")
        return parameters

    def _mini_batch(self, samples, labels):
        x = array_of(samples, np.float32).reshape(len(samples), -1)
        y = array_of(labels, np.int64)
        size = int(np.prod(self.input))
        if y.shape != (len(x),) or x.shape[1] != size:
            raise ValueError(f"mini-batch: got {x.shape[0]} rows of {x.shape[1]} numbers and {y.size} labels, expected as many labels, "
                             f"and {size} numbers in a row")
        return x, y, _library.Metric()
