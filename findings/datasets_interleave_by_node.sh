#!/usr/bin/env bash
# Hugging Face datasets: of two interleaved sources on two nodes each node reads only one, unless their shards divide by the nodes.
set -eu
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
python3 -m venv "$tmp/venv"
"$tmp/venv/bin/pip" install -q datasets==5.2.0 numpy==2.4.6 pyarrow==26.0.1
cat >"$tmp/check.py" <<'PY'
import sys
from collections import Counter

import datasets
from datasets import interleave_datasets
from datasets.distributed import split_dataset_by_node

ROWS = 24  # of each source


def shard_rows(source, shards, count):
    for shard in shards:
        for _ in range(ROWS // count):
            yield {"source": source}


def source(name, shards):
    return datasets.IterableDataset.from_generator(
        shard_rows, gen_kwargs={"source": name, "shards": list(range(shards)), "count": shards})


def mixed_then_split(shards, node, nodes):
    return split_dataset_by_node(interleave_datasets([source("day", shards), source("night", shards)]), node, nodes)


def split_then_mixed(shards, node, nodes):
    return interleave_datasets([split_dataset_by_node(source(name, shards), node, nodes) for name in ("day", "night")])


def share_of_day(rows):
    counts = Counter(row["source"] for row in rows)
    return counts["day"] / counts.total()


print("datasets", datasets.__version__)
print("guess: every node reads about one half of day and one half of night")
seen = {}
for shards, nodes in ((4, 2), (3, 2), (1, 2), (1, 3), (6, 4)):
    for way in (mixed_then_split, split_then_mixed):
        shares = [share_of_day(way(shards, node, nodes)) for node in range(nodes)]
        seen[shards, nodes, way.__name__] = shares
        print(f"{shards} shards a source, {nodes} nodes, {way.__name__}: day is", ", ".join(f"{share:.0%}" for share in shares))


def as_told(shards, nodes, right):
    return all(right(seen[shards, nodes, way]) for way in ("mixed_then_split", "split_then_mixed"))


def is_mixed(shares):
    return all(0.4 < share < 0.6 for share in shares)


def by_turns(shares):
    return shares == [1.0 - node % 2 for node in range(len(shares))]


as_found = (as_told(4, 2, is_mixed) and as_told(1, 3, is_mixed)
            and as_told(3, 2, by_turns) and as_told(1, 2, by_turns) and as_told(6, 4, by_turns))
print("as found: a node by turns has day alone or night alone, also where each source was split first" if as_found else "CHANGED")
sys.exit(0 if as_found else 1)
PY
cd "$tmp" && HF_HOME="$tmp/home" "$tmp/venv/bin/python" check.py
