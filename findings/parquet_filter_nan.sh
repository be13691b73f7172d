#!/usr/bin/env bash
# Parquet: pyarrow and DuckDB skip a row group by a minimum and maximum that know no NaN, so the rows with NaN cannot be found.
set -eu
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
python3 -m venv "$tmp/venv"
"$tmp/venv/bin/pip" install -q pyarrow==26.0.1 duckdb==2.0.1
cat >"$tmp/check.py" <<'PY'
import sys
from importlib.metadata import version

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

print("pyarrow", version("pyarrow"), "duckdb", version("duckdb"))
print("guess: a filter finds the same rows in a table and in the Parquet file that was written of it")
log = pa.table({"step": [0, 1, 2, 3], "loss": [3.0, 2.0, float("nan"), 1.0]})
pq.write_table(log, "log.parquet")
statistics = pq.ParquetFile("log.parquet").metadata.row_group(0).column(1).statistics
print(f"the file says: minimum {statistics.min}, maximum {statistics.max}, {statistics.null_count} nulls")

loss, seen = pc.field("loss"), {}
for name, rows in {"not (loss < 10)": ~(loss < 10), "not (loss > 0)": ~(loss > 0), "loss is NaN": pc.is_nan(loss),
                   "loss >= 2": loss >= 2}.items():
    seen["pyarrow", name] = (log.filter(rows).num_rows, pq.read_table("log.parquet", filters=rows).num_rows)
for name in ("not (loss < 10)", "loss > 10", "isnan(loss)", "loss <= 2"):
    seen["DuckDB", name] = tuple(duckdb.sql(f"select count(*) from {source} where {name}").fetchall()[0][0]
                                 for source in ("log", "'log.parquet'"))
for (who, name), (table, file) in seen.items():
    print(f"{who}, {name}: {table} rows of the table, {file} of the file")
largest = [duckdb.sql(f"select max(loss) from {source}").fetchall()[0][0] for source in ("log", "'log.parquet'")]
print(f"DuckDB, max(loss): {largest[0]} of the table, {largest[1]} of the file")
duckdb.sql("copy log to 'own.parquet' (format parquet)")
own = duckdb.sql("select count(*) from 'own.parquet' where isnan(loss)").fetchall()[0][0]
print(f"DuckDB, isnan(loss), of a file that DuckDB wrote: {own} rows")
lost = [key for key, rows in seen.items() if rows == (1, 0)]
as_found = (lost == [("pyarrow", "not (loss < 10)"), ("pyarrow", "not (loss > 0)"), ("DuckDB", "not (loss < 10)"),
                     ("DuckDB", "loss > 10"), ("DuckDB", "isnan(loss)")]
            and all(table == file for key, (table, file) in seen.items() if key not in lost)
            and largest[0] != largest[0] and largest[1] == 3.0 and own == 1)
print("as found: the step that diverged is not in the answer" if as_found else "CHANGED")
sys.exit(0 if as_found else 1)
PY
cd "$tmp" && "$tmp/venv/bin/python" check.py
