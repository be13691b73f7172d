"""What a column may hold, and how it becomes arrays: numbers, or arrays of numbers of one length.

Floating numbers become float32, as parameters are; single whole numbers int64, as labels are; whole numbers within arrays
keep their width, since pictures of bytes would take eight times the room.
"""

from typing import Dict, List, Optional, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions
from pyspark.sql.types import (ArrayType, BooleanType, ByteType, DataType, DoubleType, FloatType, IntegerType, LongType,
                               ShortType, StructType)

_FLOATING = (FloatType, DoubleType)
_WHOLE = (BooleanType, ByteType, ShortType, IntegerType, LongType)
EXPECTED = "a number, or an array of numbers"


def chosen(schema: StructType, names: Optional[Sequence[str]]) -> List[str]:
    """The columns to train with: `names`, else all. Errors: ValueError for none, one that is not there or is there twice,
    or one of another type."""
    there = list(schema.names)
    names = there if names is None else list(names)
    if not names:
        raise ValueError("columns: got none, expected at least one")
    for name in names:
        if there.count(name) != 1:
            raise ValueError(f"column '{name}': the DataFrame has {there.count(name)} of that name, expected one of "
                             f"{', '.join(there)}")
        kind = schema[name].dataType
        if not _is_trainable(kind):
            hint = " (pyspark.ml.functions.vector_to_array makes one)" if kind.typeName() == "vectorudt" else ""
            raise ValueError(f"column '{name}': got {kind.simpleString()}, expected {EXPECTED}{hint}")
    return names


def _is_trainable(kind: DataType) -> bool:
    while isinstance(kind, ArrayType):
        kind = kind.elementType
    return isinstance(kind, _FLOATING + _WHOLE)


def narrowed(frame, names: Sequence[str]):
    """The DataFrame of these columns, in the types they travel in."""
    def column(name):
        return functions.col("`" + name.replace("`", "``") + "`")
    return frame.select(*[column(name).cast(_travels_as(frame.schema[name].dataType)).alias(name)
                          for name in names])


def _travels_as(kind: DataType) -> DataType:
    if isinstance(kind, ArrayType):
        return ArrayType(_travels_as(kind.elementType) if isinstance(kind.elementType, (ArrayType,) + _FLOATING)
                         else kind.elementType)
    return FloatType() if isinstance(kind, _FLOATING) else kind if isinstance(kind, BooleanType) else LongType()


def fault_of(column: pa.Array) -> Optional[str]:
    """What keeps a column of a batch from becoming one array; None: nothing does."""
    while True:
        if column.null_count:
            return "holds a null"
        if not pa.types.is_list(column.type):
            return None
        lengths = pc.min_max(pc.list_value_length(column)).as_py()
        if len(column) and lengths["min"] != lengths["max"]:
            return f"holds arrays of {lengths['min']} to {lengths['max']} elements, expected one length"
        column = column.flatten()


def shape_of(column: pa.Array) -> tuple:
    """Of one row; of a batch that has rows, and no fault_of()."""
    shape = []
    while pa.types.is_list(column.type):
        inner = column.flatten()
        shape.append(len(inner) // len(column))
        column = inner
    return tuple(shape)


def array_of(column: pa.Array) -> np.ndarray:
    """(rows, …) of a column without a fault_of(), of no rows never. It may share the column's memory: not to be written to."""
    shape = (len(column), *shape_of(column))
    while pa.types.is_list(column.type):
        column = column.flatten()
    return column.to_numpy(zero_copy_only=False).reshape(shape)


def arrays_of(batch: pa.RecordBatch) -> Dict[str, np.ndarray]:
    return {name: array_of(column) for name, column in zip(batch.schema.names, batch.columns)}
