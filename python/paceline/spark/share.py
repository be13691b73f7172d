"""A share of the rows, on the disk of the executor that trains with it: a run takes more than one pass over them, and they
may be more than memory holds."""

import os
import tempfile
from typing import Iterable, Iterator, Sequence

import pyarrow as pa

from paceline.spark.batches import Columns, cut
from paceline.spark.columns import arrays_of

# Of a block, if a row is no larger. A few blocks are in memory at a time (batches.py), and what an executor has beside Java's may
# be little.
BLOCK_BYTES = 4 << 20


class Share:
    """The rows of `batches`, which are read to the end. They lie in a file in `folder` that has no name, so that nothing is left
    of it however the process ends. Errors: ValueError for no rows; OSError.
    """

    def __init__(self, batches: Iterable[pa.RecordBatch], folder: str):
        with tempfile.TemporaryFile(dir=folder) as file:
            self.rows = self._write(batches, file)
            if not self.rows:
                raise ValueError("the share has no rows, expected at least one")
            # Either keeps the file.
            path = f"/proc/{os.getpid()}/fd/{file.fileno()}"
            try:
                self._source = pa.memory_map(path)  # its pages need not stay in memory
            except OSError:  # larger than the address space that is left (spark.executor.pyspark.memory): blocks are copied
                self._source = pa.OSFile(path)
        self._file = pa.ipc.open_file(self._source)

    @staticmethod
    def _write(batches, file) -> int:
        rows, writer = 0, None
        for batch in batches:
            if batch.num_rows == 0:
                continue
            writer = writer or pa.ipc.new_file(file, batch.schema)
            each = max(1, BLOCK_BYTES * batch.num_rows // max(batch.nbytes, 1))
            for begin in range(0, batch.num_rows, each):
                writer.write_batch(batch.slice(begin, each))
            rows += batch.num_rows
        if writer is not None:
            writer.close()
            file.flush()
        return rows

    def cut(self, size: int, seed: Sequence[int]) -> Iterator[Columns]:
        """Mini-batches of `size` rows by column, without end (batches.py)."""
        return cut(self._file.num_record_batches, lambda block: arrays_of(self._file.get_batch(block)), size, seed)
