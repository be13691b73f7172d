#!/usr/bin/env bash
# Hugging Face datasets: a shuffle behind split_dataset_by_node deals the shards anew, so nodes with unlike seeds read the same ones.
set -eu
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
python3 -m venv "$tmp/venv"
"$tmp/venv/bin/pip" install -q datasets==5.2.0 numpy==2.4.6 pyarrow==26.0.1
cat >"$tmp/check.py" <<'PY'
import sys

import datasets
from datasets.distributed import split_dataset_by_node

NODES, SHARDS, EACH = 2, 4, 6


def shard_rows(shards):
    for shard in shards:
        for row in range(EACH):
            yield {"x": shard * EACH + row}


def part(node):
    """What this node is given of the rows 0 … 23; nothing is shuffled yet."""
    rows = datasets.IterableDataset.from_generator(shard_rows, gen_kwargs={"shards": list(range(SHARDS))})
    return split_dataset_by_node(rows, rank=node, world_size=NODES)


def read(*parts):
    """How many rows are read by both nodes, and how many by none."""
    one, other = ({row["x"] for row in rows} for rows in parts)
    return len(one & other), SHARDS * EACH - len(one | other)


print("datasets", datasets.__version__)
print("guess: what was split first stays split, and each node shuffles its own half")
seen = {
    "not shuffled": [read(part(0), part(1))],
    "shuffle(seed=7) on both": [read(*(part(node).shuffle(seed=7, buffer_size=4) for node in range(NODES)))],
    "shuffle(seed=node)": [read(*(part(node).shuffle(seed=node, buffer_size=4) for node in range(NODES)))],
    "shuffle(), 20 times": [read(*(part(node).shuffle(buffer_size=4) for node in range(NODES))) for _ in range(20)],
}
for name, counts in seen.items():
    print(f"{name}: of {SHARDS * EACH} rows (read by both, by none):", *sorted(set(counts)))
as_found = (seen["not shuffled"] == seen["shuffle(seed=7) on both"] == [(0, 0)]
            and all(counts[0] > 0 and counts[1] > 0 for counts in seen["shuffle(seed=node)"])
            and max(seen["shuffle(), 20 times"]) > (0, 0))
print("as found: rows read twice, others never, no warning" if as_found else "CHANGED")
sys.exit(0 if as_found else 1)
PY
cd "$tmp" && "$tmp/venv/bin/python" check.py
