#!/usr/bin/env bash
# grain: a shuffled, sharded sampler gives each node one piece of the records, in order, and the same piece in every epoch.
set -eu
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
python3 -m venv "$tmp/venv"
"$tmp/venv/bin/pip" install -q grain==0.2.18 numpy==2.4.6
cat >"$tmp/check.py" <<'PY'
import sys
from collections import Counter
from importlib.metadata import version

import grain
from grain import python as pygrain
from grain.sharding import ShardOptions

NODES, CLASSES, OF_A_CLASS, EPOCHS = 2, 4, 250, 3


class Pictures:
    """Labels as a folder for each class gives them: all of the first class, then all of the second, and so on."""

    def __len__(self):
        return CLASSES * OF_A_CLASS

    def __getitem__(self, index):
        return int(index) // OF_A_CLASS


def by_sampler(node):
    sampler = pygrain.IndexSampler(len(Pictures()), shard_options=ShardOptions(node, NODES), shuffle=True, num_epochs=EPOCHS, seed=1)
    return list(pygrain.DataLoader(data_source=Pictures(), sampler=sampler, worker_count=0))


def by_slices(node):
    shuffled = grain.MapDataset.source(Pictures()).seed(1).shuffle()
    return list(shuffled[node::NODES].repeat(EPOCHS))


if __name__ == "__main__":
    print("grain", version("grain"))
    print(f"guess: with shuffle=True each of {NODES} nodes draws from all {CLASSES} classes, anew in each epoch")
    seen = {}
    for name, labels in (("IndexSampler", by_sampler), ("MapDataset.shuffle() and a slice", by_slices)):
        for node in range(NODES):
            seen[name, node] = Counter(labels(node))
            print(f"{name}, node {node}, {EPOCHS} epochs: "
                  + ", ".join(f"{seen[name, node][c]} of class {c}" for c in range(CLASSES)))
    as_found = (set(seen["IndexSampler", 0]) == {0, 1} and set(seen["IndexSampler", 1]) == {2, 3}
                and all(min(seen["MapDataset.shuffle() and a slice", node][c] for c in range(CLASSES)) > 300 for node in range(NODES)))
    print("as found: node 0 never meets classes 2 and 3" if as_found else "CHANGED")
    sys.exit(0 if as_found else 1)
PY
cd "$tmp" && "$tmp/venv/bin/python" check.py 2>log || { tail -20 log; exit 1; }
