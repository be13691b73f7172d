"""Rows of a DataFrame as even shares, one for each worker, that outlive an executor.

A query's result lies as its last step left it: in partitions of any number and size. They are dealt out anew, one partition
for each worker, and kept on the disks of two executors. The training reads what is kept, so that a worker that is begun
again elsewhere gets its rows without the shuffle before it: a shuffle whose output is lost would begin all workers again.

What was found is said: how the rows lay, and which share lacks a label that others have.
"""

import collections
import itertools
import json
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import StorageLevel, TaskContext
from pyspark.sql import functions

from paceline.spark import columns

# Beside the columns, until they are counted: which partition a row lay in.
_PARTITION = "paceline partition"
# Whole numbers of more values than these are no labels.
LABELS_MAX = 1 << 16
# Of those, and of shares and labels of one, so many are named.
_COLUMNS_PRINTED, _LACKS_PRINTED = 8, 5


class Shares(NamedTuple):
    frame: Any                      # the DataFrame; of as many partitions as workers
    kept: Any                       # what is kept for it
    rows: List[int]                 # of each share
    shapes: Dict[str, tuple]        # of a row, by column
    labels: Dict[str, List[Dict[int, int]]]  # columns of few whole numbers: how often each share has each
    lay: List[int]                  # rows of each partition of the DataFrame that had some

    def forget(self) -> None:
        self.kept.unpersist()


def shares_of(frame, names: Optional[Sequence[str]], workers: int) -> Shares:
    """Errors: ValueError for columns that cannot be trained with, an empty DataFrame, one of fewer rows than workers."""
    frame = columns.narrowed(frame, columns.chosen(frame.schema, names))
    frame = frame.select("*", functions.spark_partition_id().alias(_PARTITION))
    shares = _dealt(frame, workers)
    if is_uneven(shares.rows) and min(shares.rows) < sum(shares.rows) // workers:
        # Each of many small partitions is dealt out from a place of its own, so few rows may lie anyhow: here one deals. The
        # step between keeps Spark from taking both for one repartition.
        shares.forget()
        shares = _dealt(frame.coalesce(1).mapInArrow(_as_they_are, frame.schema), workers)
    return shares


def is_uneven(rows: Sequence[int]) -> bool:
    """Whether a share lacks more than a twentieth of what each would have."""
    return min(rows) * len(rows) < 0.95 * sum(rows)


def found(shares: Shares) -> List[str]:
    """What there is to say, in at most 2 + _COLUMNS_PRINTED * (_LACKS_PRINTED + 1) lines."""
    lines = [f"{sum(shares.rows)} rows lay in {len(shares.lay)} partitions, of {min(shares.lay)} to {max(shares.lay)}; dealt out as "
             f"{len(shares.rows)} shares, of {min(shares.rows)} to {max(shares.rows)}"]
    columns_of = [(name, *_labels_of(counts)) for name, counts in shares.labels.items()]
    columns_of = sorted((each for each in columns_of if each[2]), key=lambda each: not each[1])  # those that lack some first
    for name, _, lines_of in columns_of[:_COLUMNS_PRINTED]:
        lines += [f"column '{name}': {line}" for line in lines_of]
    more = columns_of[_COLUMNS_PRINTED:]
    if more:
        lines.append(f"and {len(more)} more columns of whole numbers, {sum(lacks for _, lacks, _ in more)} of them with shares that lack a "
                     "value")
    return lines


def _labels_of(counts: Sequence[Dict[int, int]]) -> Tuple[bool, List[str]]:
    """Whether a share lacks a label of a column, and what there is to say of it."""
    of_all: Dict[int, int] = collections.Counter()
    for of in counts:
        of_all.update(of)
    there = {value for value, count in of_all.items() if count >= len(counts)}  # a rarer one cannot be in every share
    lacking = {share: sorted(there - set(of)) for share, of in enumerate(counts) if there - set(of)}
    if not lacking:
        return False, [f"{len(there)} values, each in every share"] if there else []
    lines = [f"share {share} has no row of {_some(values)}" for share, values in itertools.islice(lacking.items(), _LACKS_PRINTED)]
    if len(lacking) > _LACKS_PRINTED:
        lines.append(f"{len(lacking) - _LACKS_PRINTED} more shares lack values that others have")
    return True, lines


def _some(values: Sequence[int]) -> str:
    more = len(values) - _LACKS_PRINTED
    return ", ".join(map(str, values[:_LACKS_PRINTED])) + (f" and {more} more" if more > 0 else "")


def _as_they_are(batches):
    return batches


def _dealt(frame, workers: int) -> Shares:
    kept = frame.repartition(workers).persist(StorageLevel.DISK_ONLY_2)
    try:
        counted = [json.loads(row.found) for row in kept.mapInArrow(_count, "found string").collect()]
        return _checked(kept, counted, workers)
    except BaseException:
        kept.unpersist()
        raise


def _checked(kept, counted, workers: int) -> Shares:
    rows, lay = [0] * workers, collections.Counter()
    for share in counted:
        if share["fault"]:
            raise ValueError(share["fault"])
        rows[share["share"]] += share["rows"]
        lay.update(share["lay"])
    if sum(rows) < workers:
        raise ValueError(f"the DataFrame has {sum(rows)} rows, expected at least one for each of {workers} workers"
                         if sum(rows) else "the DataFrame is empty, expected rows to train with")
    frame = kept.drop(_PARTITION)
    shapes, labels = {}, {}
    for name in frame.schema.names:
        different = sorted({tuple(shape) for share in counted for shape in share["shapes"].get(name, [])})
        if len(different) > 1:
            raise ValueError(f"column '{name}': holds arrays of shape {different[0]} and {different[1]}, expected one")
        shapes[name] = different[0]
        of_shares: List[Dict[int, int]] = [{} for _ in rows]
        for share in counted:
            of_shares[share["share"]] = {int(value): count for value, count in share["labels"].get(name, {}).items()}
        if sum(map(len, of_shares)) and len(set().union(*of_shares)) <= LABELS_MAX and all(of_shares):
            labels[name] = of_shares
    return Shares(frame, kept, rows, shapes, labels, list(lay.values()))


def _count(batches):
    """In a task: what a share holds."""
    count = {"share": TaskContext.get().partitionId(), "rows": 0, "fault": None}
    lay, shapes, labels = collections.Counter(), collections.defaultdict(set), collections.defaultdict(collections.Counter)
    for batch in batches:
        count["rows"] += batch.num_rows
        for name, column in zip(batch.schema.names, batch.columns):
            if name == _PARTITION:
                _add(lay, column)
                continue
            fault = columns.fault_of(column)
            if fault:
                count["fault"] = count["fault"] or f"column '{name}': {fault}"
            elif batch.num_rows:
                shapes[name].add(columns.shape_of(column))
                is_whole = pa.types.is_integer(column.type) or pa.types.is_boolean(column.type)
                if is_whole and len(labels[name]) <= LABELS_MAX:
                    _add(labels[name], column.cast(pa.int64()))
    few = {name: dict(values) for name, values in labels.items() if len(values) <= LABELS_MAX}
    count.update(lay=lay, shapes={name: sorted(all_of) for name, all_of in shapes.items()}, labels=few)
    yield pa.RecordBatch.from_arrays([pa.array([json.dumps(count)], pa.string())], names=["found"])


def _add(counter, column: pa.Array) -> None:
    for each in pc.value_counts(column).to_pylist():
        counter[each["values"]] += each["counts"]
