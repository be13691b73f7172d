"""Rows of a DataFrame as even shares, one for each worker, that outlive an executor.

A query's result lies as its last step left it: in partitions of any number and size. They are dealt out anew, one partition
for each worker, and kept on the disks of two executors. The training reads what is kept, so that a worker that is begun
again elsewhere gets its rows without the shuffle before it: a shuffle whose output is lost would begin all workers again.
"""

from typing import Dict, List, NamedTuple, Optional, Sequence

import pyarrow as pa
from pyspark import StorageLevel, TaskContext

from paceline.spark import columns

_COUNTED = "share int, rows long, fault string, shapes string"


class Shares(NamedTuple):
    frame: object     # the DataFrame, kept; of as many partitions as workers
    rows: List[int]   # of each share
    shapes: Dict[str, tuple]


def shares_of(frame, names: Optional[Sequence[str]], workers: int) -> Shares:
    """Errors: ValueError for columns that cannot be trained with, an empty DataFrame, one of fewer rows than workers."""
    frame = columns.narrowed(frame, columns.chosen(frame.schema, names))
    shares = _dealt(frame, workers)
    if is_uneven(shares.rows) and min(shares.rows) < sum(shares.rows) // workers:
        # Each of many small partitions is dealt out from a place of its own, so few rows may lie anyhow: here one deals. The
        # step between keeps Spark from taking both for one repartition.
        shares.frame.unpersist()
        shares = _dealt(frame.coalesce(1).mapInArrow(lambda batches: batches, frame.schema), workers)
    return shares


def is_uneven(rows: Sequence[int]) -> bool:
    """Whether a share lacks more than a twentieth of what each would have."""
    return min(rows) * len(rows) < 0.95 * sum(rows)


def _dealt(frame, workers: int) -> Shares:
    kept = frame.repartition(workers).persist(StorageLevel.DISK_ONLY_2)
    try:
        counted = kept.mapInArrow(_count, _COUNTED).collect()
        return Shares(kept, *_judged(counted, workers))
    except BaseException:
        kept.unpersist()
        raise


def _judged(counted, workers: int):
    rows, shapes = [0] * workers, {}
    for share in counted:
        if share.fault:
            raise ValueError(share.fault)
        rows[share.share] += share.rows
    if sum(rows) < workers:
        raise ValueError(f"the DataFrame has {sum(rows)} rows, expected at least one for each of {workers} workers"
                         if sum(rows) else "the DataFrame is empty, expected rows to train with")
    for share in counted:
        for each in filter(None, share.shapes.split(";")):
            name, _, shape = each.rpartition("=")
            if shapes.setdefault(name, shape) != shape:
                raise ValueError(f"column '{name}': holds arrays of shape ({shapes[name]}) and ({shape}), expected one")
    return rows, {name: tuple(int(size) for size in shape.split(",") if size) for name, shape in shapes.items()}


def _count(batches):
    """In a task: rows, faults and shapes of each batch of a share."""
    share = TaskContext.get().partitionId()
    for batch in batches:
        faults = [f"column '{name}': {fault}" for name, fault in
                  ((name, columns.fault_of(column)) for name, column in zip(batch.schema.names, batch.columns)) if fault]
        shapes = "" if faults or not batch.num_rows else ";".join(
            f"{name}={','.join(map(str, columns.shape_of(column)))}" for name, column in zip(batch.schema.names, batch.columns))
        yield pa.RecordBatch.from_arrays(
            [pa.array([share], pa.int32()), pa.array([batch.num_rows], pa.int64()),
             pa.array([faults[0] if faults else None], pa.string()), pa.array([shapes], pa.string())],
            names=["share", "rows", "fault", "shapes"])
