"""An RDD of rows as a DataFrame, whose columns are what the first row has.

A row is a dict, a Row or another named tuple; or a tuple, to which `names` gives names. A value is a number, or an array
or list of numbers; of NumPy as well, which createDataFrame() does not take. So blocks of rows travel as Arrow's bytes, and
no row becomes an object of Java.
"""

import contextlib
import re
from typing import Any, List, Optional, Sequence, Tuple

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

# A block ends at so many rows, or at so many bytes of them: a task has one in memory.
_BLOCK_ROWS, _BLOCK_BYTES = 1000, 4 << 20
_WIDTHS = {"int8": pa.int8(), "uint8": pa.int16(), "int16": pa.int16(), "uint16": pa.int32(), "int32": pa.int32()}


class RowFault(ValueError):
    """Of a row that is not as the first one; raised in a task, named at the driver by faults_named()."""


def frame_of(rdd, names: Optional[Sequence[str]]):
    """Errors: ValueError for an empty RDD, rows without names, a value that is no number and no array of them."""
    first = rdd.take(1)
    if not first:
        raise ValueError("the RDD is empty, expected rows to train with")
    schema = pa.schema([(name, _type_of(name, value)) for name, value in _named(first[0], names)])
    blocks = rdd.mapPartitions(lambda rows: _packed(rows, schema, names))
    frame = SparkSession.builder.getOrCreate().createDataFrame(blocks, "block binary", verifySchema=False)
    return frame.mapInArrow(_unpacked, from_arrow_schema(schema))


@contextlib.contextmanager
def faults_named():
    """What a task says of a row, as a ValueError of one line."""
    try:
        yield
    except Exception as error:  # Spark's, with the task's traceback in it
        found = re.search(r"RowFault: (.*)", str(error))
        if not found:
            raise
        raise ValueError(found[1]) from None


def _named(row: Any, names: Optional[Sequence[str]]) -> List[Tuple[str, Any]]:
    fields = getattr(row, "__fields__", None) or getattr(row, "_fields", None)  # Row's, a named tuple's
    if isinstance(row, dict):
        return [(str(name), value) for name, value in row.items()]
    if fields:
        return list(zip(fields, row))
    if names is not None and isinstance(row, (tuple, list)) and len(row) == len(names):
        return list(zip(names, row))
    raise RowFault(f"the RDD has a row that is {type(row).__name__}, expected dicts or Rows, or columns= with a name for each "
                   "element of tuples")


def _kind_of(value: Any) -> str:
    """Of its elements: "b", "i", "u" or "f", as NumPy calls them; anything else is no number."""
    try:
        return np.asarray(value).dtype.kind
    except ValueError:  # arrays of different lengths
        return "O"


def _type_of(name: str, value: Any) -> pa.DataType:
    kind = _kind_of(value)
    if kind not in "biuf" or not np.size(value):
        raise ValueError(f"column '{name}': got {type(value).__name__} in the first row, expected a number, or an array of numbers")
    array = np.asarray(value)
    whole = _WIDTHS.get(array.dtype.name, pa.int64()) if isinstance(value, np.ndarray) else pa.int64()
    made = pa.bool_() if kind == "b" else pa.float32() if kind == "f" else whole
    for _ in range(array.ndim):
        made = pa.list_(made)
    return made


def _bytes_about(value: Any) -> int:
    if isinstance(value, np.ndarray):
        return value.nbytes
    if isinstance(value, (list, tuple)):
        return len(value) * _bytes_about(value[0]) if value else 0
    return 8


def _packed(rows, schema: pa.Schema, names):
    block: List[dict] = []
    size = 0
    for row in rows:
        block.append(dict(_named(row, names)))
        size += sum(map(_bytes_about, block[-1].values()))
        if len(block) == _BLOCK_ROWS or size >= _BLOCK_BYTES:
            yield (_bytes_of(block, schema),)
            block, size = [], 0
    if block:
        yield (_bytes_of(block, schema),)


def _bytes_of(block: List[dict], schema: pa.Schema) -> bytes:
    batch = pa.RecordBatch.from_arrays([_column(block, field) for field in schema], schema=schema)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


def _column(block: List[dict], field: pa.Field) -> pa.Array:
    inner = field.type
    while pa.types.is_list(inner):
        inner = inner.value_type
    # pyarrow makes 1 of 1.5 where it is told that numbers are whole.
    kinds = "fiu" if pa.types.is_floating(inner) else "b" if pa.types.is_boolean(inner) else "iu"
    for row in block:
        if field.name not in row:
            raise RowFault(f"column '{field.name}': a row of the RDD has none, expected it in each")
        value = row[field.name]
        if value is not None and _kind_of(value) not in kinds:
            raise RowFault(f"column '{field.name}': got {str(value)[:60]!r} in a row, expected {field.type} as in the first")
    try:
        return pa.array([_plain(row[field.name]) for row in block], field.type)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise RowFault(f"column '{field.name}': {str(error).splitlines()[0]}, expected {field.type} as in the first row") from None


def _plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray) else value


def _unpacked(batches):
    for batch in batches:
        for block in batch.column(0):
            with pa.ipc.open_stream(block.as_buffer()) as reader:
                yield from reader
