"""A DataFrame of Spark as training data, its executors as the workers of a run:

    def fn(worker):
        model = torch.nn.Linear(4, 2)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        with worker.attach(model, optimizer):
            for batch in worker.batches():
                loss = cross_entropy(model(batch["x"]), batch["y"]); optimizer.zero_grad(); loss.backward(); optimizer.step()

    result = paceline.spark.train(spark.sql("SELECT x, y FROM …"), fn, "my.yaml", num_workers=8)
    model.load_state_dict(result.tensors("torch"), strict=False)

The job is a plain one: its tasks need not start together. A lost executor is a lost node of the run; the others go on, and
the task that Spark begins in its place takes part again. The server is a process beside the driver.
"""

import json
import secrets
import sys
import threading
import time
import uuid
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence, Union

from pyspark import RDD, cloudpickle

from paceline._programs import programs_in
from paceline.model import read_model
from paceline.spark import rdd
from paceline.spark.ledger import Ledger
from paceline.spark.network import Network
from paceline.spark.resources import busy, check_session, check_slots
from paceline.spark.server import Server, Setup
from paceline.spark.shares import found, shares_of
from paceline.spark.task import RETURNED, Orders, SparkWorker, task_of
from paceline.worker import Error

__all__ = ["Network", "Result", "SparkWorker", "train"]

# The run is over, and no task has run for so long: who has not begun by then is not needed.
_GRACE_S = 30.0
# The run is over and functions have not returned: how long until it is said whose, and until it is said again.
_STILL_S, _AGAIN_S = 10.0, 600.0
# The run has failed, and tasks that did not know are told by its end: one of them may say why in its own words.
_TASKS_SAY_S = 10.0
_WORDS = 3


class Result(NamedTuple):
    """What train() returns."""

    out: str                         # the run directory, at the driver: reports, the final model
    summary: Dict[str, Any]          # its summary.json
    rows: List[int]                  # of each share
    attempts: Dict[int, List[int]]   # of each share: the taskAttemptId() of those that took part, in order
    returned: Dict[int, Any]         # what the training function returned, by share; None where the run was over before

    def tensors(self, library: str = "numpy") -> Dict[str, Any]:
        """The final model by name, as arrays of "numpy" or tensors of "torch"."""
        arrays = read_model(f"{self.out}/model.bin")
        if library == "numpy":
            return arrays
        import torch
        return {name: torch.from_numpy(array) for name, array in arrays.items()}


def train(dataframe, fn: Callable[[SparkWorker], Any], config: Union[str, Mapping], *, num_workers: int,
          columns: Optional[Sequence[str]] = None, min_workers: Optional[int] = None, barrier: bool = False,
          overrides: Sequence[str] = (), existing: str = "refuse", programs: Optional[str] = None) -> Result:
    """Trains with the rows of `dataframe` on `num_workers` tasks, each of which calls fn(worker) in an executor.

    dataframe: of columns of numbers, or of arrays of numbers of one length (columns: these of them); or an RDD of such rows
    (rdd.py). Its rows are dealt out evenly. fn: a loop of your own, or a Network. config: a path of a YAML file, or the same
    as a mapping; its cluster.nodes, shards and endpoints are set here.
    min_workers: with how many the training begins, share 0 among them; None: all. barrier: Spark begins all tasks at once,
    and ends the job with the first that fails. existing: what becomes of a run in run.out, "refuse", "replace" or
    "continue". programs: the folder of paceline-server, where it is neither beside the library nor on the PATH.

    Ends nothing but what it began, however it ends. Errors: ValueError for arguments, columns, rows or a session that
    do not do; paceline.Error for what the run refuses, and for one that failed; Spark's own for a task that failed as often as
    spark.task.maxFailures allows.
    """
    workers = _whole("num_workers", num_workers, 1, 4096)
    at_start = workers if min_workers is None else _whole("min_workers", min_workers, 1, workers)
    context = check_session(dataframe)
    folder = programs_in(programs)
    check_slots(context, workers)
    host = context.getConf().get("spark.driver.host")
    bind = context.getConf().get("spark.driver.bindAddress", host)
    setup = Setup(config, overrides, folder, host, workers, at_start, bind)
    try:
        with rdd.faults_named():
            frame = rdd.frame_of(dataframe, columns) if isinstance(dataframe, RDD) else dataframe
            shares = shares_of(frame, columns, workers)
        try:
            for line in found(shares):
                print(f"paceline.spark: {line}", file=sys.stderr, flush=True)
            if isinstance(fn, Network):
                fn.check(shares, setup.batch_size)
            return _run(context, shares, fn, setup, host, bind, barrier, existing)
        finally:
            shares.forget()
    finally:
        setup.close()


def _run(context, shares, fn, setup, host, bind, barrier, existing) -> Result:
    ledger = Ledger(bind, secrets.token_bytes(32))
    try:
        server = Server(setup, existing)
        try:
            orders = context.broadcast(Orders(setup.text, [*setup.given, setup.reached], setup.batch_size, setup.keys, (host, ledger.port),
                                              ledger.secret, int(setup.get("run.seed") or 0)))
            try:
                rows = _collect(context, shares.frame.mapInArrow(task_of(fn, orders), RETURNED, barrier), server, ledger)
            finally:
                orders.destroy()
        finally:
            server.close()
    finally:
        ledger.close()
    with open(f"{setup.out}/summary.json", encoding="utf-8") as file:
        summary = json.load(file)
    returned = {row.share: cloudpickle.loads(row.value) for row in rows}
    return Result(setup.out, summary, shares.rows, {share: list(of) for share, of in sorted(ledger.attempts.items())},
                  {share: returned.get(share) for share in range(len(shares.rows))})


def _collect(context, frame, server: Server, ledger: Ledger):
    """The job's rows, collected once: an action more, or a shuffle, would train again."""
    tag, ended = f"paceline-{uuid.uuid4().hex}", threading.Event()
    given_up = threading.Event()
    statuses: "list[int]" = []

    def watch():
        statuses.append(server.wait())
        ledger.over = statuses[0] == 0
        last = time.monotonic()  # that an attempt was there, or its task was ending
        print_at = last + _STILL_S
        while ledger.over and not ended.wait(0.5) and time.monotonic() - last < _GRACE_S:
            present = ledger.present()
            if present or busy(context, tag):
                last = time.monotonic()
            if present and time.monotonic() > print_at:
                print_at = time.monotonic() + _AGAIN_S
                print(f"paceline.spark: the run is over; still in their training function: shares {', '.join(map(str, present))}",
                      file=sys.stderr, flush=True)
        if not ledger.over:
            ended.wait(_TASKS_SAY_S)
        if not ended.is_set():
            given_up.set()
            context.cancelJobsWithTag(tag)

    watcher = threading.Thread(target=watch, daemon=True, name="paceline-watch")
    watcher.start()
    context.addJobTag(tag)
    try:
        rows = frame.collect()
    except Exception as error:
        if not given_up.is_set():
            raise
        if statuses[0] != 0:
            raise Error("ABORTED", _last_words(server)) from error
        return []  # the run had ended well, and tasks that were not needed any more never began
    except BaseException:  # a Ctrl-C
        context.cancelJobsWithTag(tag)
        raise
    finally:
        context.removeJobTag(tag)
        ended.set()
    watcher.join(_GRACE_S)  # the server's last files
    if statuses != [0]:
        raise Error("ABORTED", _last_words(server))
    return rows


def _last_words(server: Server) -> str:
    lines_of = [line for line in server.lines if line.startswith("paceline-server: ")]  # no progress
    return "; ".join(lines_of[-_WORDS:]) or "paceline-server: ended without a word"


def _whole(name: str, value: Any, low: int, high: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise ValueError(f"{name}: got {value!r}, expected a whole number from {low} to {high}")
    return value
