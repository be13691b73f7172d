"""What runs in an executor: a share of the rows, and the loop of the user's that trains with it."""

import os
import shutil
import tempfile
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Tuple

import numpy as np
import pyarrow as pa
from pyspark import TaskContext, cloudpickle

from paceline.network import Network
from paceline.spark.ledger import Attempt
from paceline.spark.share import Share
from paceline.worker import Error, Worker

RETURNED = "share int, attempt long, value binary"
# A process that died a moment ago may still be taken for alive, and its successor refused (docs/PROTOCOL.md, 6).
_TRIES = 5


class Orders(NamedTuple):
    """What the driver tells its tasks, by a broadcast: keys and secret are in it."""

    text: str                    # the configuration, as it was given: a loop tells what was said from defaults
    overrides: List[str]
    batch_size: int
    keys: Dict[str, bytes]       # by file
    ledger: Tuple[str, int]
    secret: bytes
    seed: int


class SparkWorker:
    """What a training function is given: its share of the rows, and its place in the run.

    node       its number, from 0 on; as the share's
    attempt    Spark's taskAttemptId(), which tells it from an earlier process with the same share
    rows       of its share
    seed       run.seed
    """

    def __init__(self, share: Share, orders: Orders, node: int, attempt: int, folder: str):
        self.node, self.attempt, self.rows = node, attempt, share.rows
        self.batch_size = orders.batch_size
        self.seed = orders.seed
        self._share = share
        self._attached: Any = None
        self.config = os.path.join(folder, "run.yaml")
        self._overrides = [*orders.overrides, f"run.out={folder}/run"]
        keys = os.path.join(folder, "keys")
        os.mkdir(keys, 0o700)
        for name, content in orders.keys.items():
            if name == "server.pub" or name in (f"node-{node}.key", "node.key"):
                with open(os.open(os.path.join(keys, name), os.O_WRONLY | os.O_CREAT, 0o600), "wb") as file:
                    file.write(content)
        if orders.keys:
            self._overrides.append(f"security.keys={keys}")
        with open(self.config, "w", encoding="utf-8") as file:
            file.write(orders.text)

    def attach(self, model, optimizer, **options):
        """paceline.torch.attach() for this worker's place; `options` are its, but for node, config, overrides, existing."""
        import paceline.torch  # not before: who counts rows at the driver needs no torch
        return self._joined(lambda: paceline.torch.attach(model, optimizer, self.config, node=self.node, overrides=self._overrides,
                                                          existing="replace", **options))

    def join(self, network: Network) -> Worker:
        """A paceline.Worker for this worker's place with a built-in network, its first round under way."""
        def begun():
            worker = Worker(self.config, self.node, overrides=self._overrides, existing="replace")
            try:
                worker.add_network(network)
                worker.start(network.initial())
                worker.begin()
                return worker
            except BaseException:
                worker.close()
                raise
        return self._joined(begun)

    def _joined(self, begin: Callable[[], Any]) -> Any:
        for left in reversed(range(_TRIES)):
            try:
                self._attached = begin()
                return self._attached
            except Error as error:
                if left == 0 or "already taken by another process" not in str(error):
                    raise
        raise AssertionError("unreachable")

    def batches(self, size: Optional[int] = None) -> Iterator[Dict[str, "torch.Tensor"]]:  # noqa: F821
        """Mini-batches of `size` rows (None: train.batch_size), by column, without end; a loop ends as its run does. Each is
        memory of its own. Order: by run.seed and node, and another one for each attempt."""
        import torch
        for batch in self.arrays(size):
            yield {name: torch.from_numpy(column) for name, column in batch.items()}

    def arrays(self, size: Optional[int] = None) -> Iterator[Dict[str, np.ndarray]]:
        """The same as NumPy's arrays."""
        return self._share.cut(self.batch_size if size is None else size, [self.seed, self.node, self.attempt])

    def close(self) -> None:
        if self._attached is not None:
            self._attached.close()


def task_of(fn: Callable[[SparkWorker], Any], orders) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function for mapInArrow; orders: a broadcast of Orders."""
    def task(batches):
        yield _train(fn, orders.value, batches)
    return task


def _train(fn, orders: Orders, batches) -> pa.RecordBatch:
    context = TaskContext.get()
    node, attempt_id = context.partitionId(), context.taskAttemptId()
    folder = tempfile.mkdtemp(prefix="paceline-", dir=os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0] or None)
    try:
        # To the end, whatever follows: a task that leaves its input unread costs the process.
        share = Share(batches, folder)
        attempt = Attempt(orders.ledger, orders.secret, node, attempt_id)
        try:
            if attempt.word == "fenced":
                raise RuntimeError(f"share {node}: a newer attempt than {attempt_id} has it")
            value = None if attempt.word == "over" else _call(fn, SparkWorker(share, orders, node, attempt_id, folder), context)
        finally:
            attempt.close()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return pa.RecordBatch.from_arrays(
        [pa.array([node], pa.int32()), pa.array([attempt_id], pa.int64()), pa.array([cloudpickle.dumps(value)], pa.binary())],
        names=["share", "attempt", "value"])


def _call(fn, worker: SparkWorker, context):
    try:
        _bind_threads(context.cpus())
        return fn(worker)
    finally:
        worker.close()


def _bind_threads(cpus: int) -> None:
    try:
        import torch
    except ImportError:
        return
    torch.set_num_threads(max(cpus, 1))
