"""Mini-batches cut from blocks of rows, without end.

Spark's own batches are cut by its settings, not by us, so they are only where rows lie, in blocks (share.py). A few blocks at
a time are mixed and cut:

    blocks    [b0] [b1] [b2] [b3] [b4]           in an order that each epoch draws anew
    pool      b3 b0 b4, rows in an order of its own
    cut       mini-batches of `size`; what is left over begins the next one, over the end of an epoch, too

So every mini-batch has `size` rows, and in each epoch each row comes once.
"""

from typing import Callable, Dict, Iterator, Sequence, Union

import numpy as np

# Blocks that are mixed at a time.
POOL = 8

Columns = Dict[str, np.ndarray]


def cut(blocks: int, read: Callable[[int], Columns], size: int, seed: Union[int, Sequence[int]]) -> Iterator[Columns]:
    """Mini-batches of `size` rows by column, each in memory of its own. read(i): block i of `blocks`, of at least one row;
    what it returns is not written to. The same seed gives the same. Errors: ValueError for a size below 1."""
    if size < 1:
        raise ValueError(f"size of a mini-batch: got {size}, expected at least 1")
    return _cut(blocks, read, size, np.random.default_rng(seed))


def _cut(blocks, read, size, random):
    parts, missing = [], size
    while True:
        order = random.permutation(blocks)
        for first in range(0, blocks, POOL):
            pool = _joined([read(int(block)) for block in order[first:first + POOL]])
            rows = random.permutation(len(next(iter(pool.values()))))
            begin = 0
            while begin < len(rows):
                taken = rows[begin:begin + missing]
                begin += len(taken)
                missing -= len(taken)
                parts.append({name: column[taken] for name, column in pool.items()})
                if missing == 0:
                    yield _joined(parts)
                    parts, missing = [], size


def _joined(parts: Sequence[Columns]) -> Columns:
    return parts[0] if len(parts) == 1 else {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
