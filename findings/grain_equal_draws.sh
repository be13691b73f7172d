#!/usr/bin/env bash
# grain: a random transform draws by the place in its node's slice, so all nodes make the same draws, step by step, for unlike samples.
set -eu
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
python3 -m venv "$tmp/venv"
"$tmp/venv/bin/pip" install -q grain==0.2.18 numpy==2.4.6
cat >"$tmp/check.py" <<'PY'
import sys
from importlib.metadata import version

import grain
import numpy as np

NODES, SAMPLES, EPOCHS = 4, 4096, 2
SIGMA = 1.0


class Noise(grain.transforms.RandomMap):
    """The sample's number and the noise that is added to it."""

    def random_map(self, element, rng):
        return int(element), float(rng.normal(0.0, SIGMA))


def node_reads(node, draw_first):
    """The order of the documentation: shuffle, the node's slice, transforms. Or the transform before the slice."""
    whole = grain.MapDataset.source(np.arange(SAMPLES)).seed(3).shuffle()
    part = slice(node, None, NODES)
    read = whole.random_map(Noise()).slice(part) if draw_first else whole.slice(part).random_map(Noise())
    return list(read.repeat(EPOCHS))


def look(draw_first):
    by_node = [node_reads(node, draw_first) for node in range(NODES)]
    samples = [[sample for sample, _ in read] for read in by_node]
    noise = np.array([[value for _, value in read] for read in by_node])
    disjoint = len(set(sum((read[: SAMPLES // NODES] for read in samples), []))) == SAMPLES
    return disjoint, len(np.unique(noise)), float(noise.mean(0).std())


print("grain", version("grain"))
print("guess: nodes read parts that do not overlap, each with noise of its own, so the mean of four nodes has half its spread")
seen = {}
for name, draw_first in (("slice, then transform", False), ("transform, then slice", True)):
    seen[name] = look(draw_first)
    disjoint, values, spread = seen[name]
    print(f"{name}: parts are {'disjoint' if disjoint else 'NOT disjoint'}; of {SAMPLES * EPOCHS} draws {values} differ; the mean "
          f"over {NODES} nodes has a spread of {spread:.3f}, one node's is {SIGMA:g}")
after, before = seen["slice, then transform"], seen["transform, then slice"]
as_found = after[0] and before[0]
as_found &= after[1] == SAMPLES * EPOCHS // NODES and 0.95 < after[2] < 1.05
as_found &= before[1] == SAMPLES * EPOCHS and 0.45 < before[2] < 0.55
print("as found: all nodes make one node's draws, and averaging does not reduce the noise" if as_found else "CHANGED")
sys.exit(0 if as_found else 1)
PY
cd "$tmp" && "$tmp/venv/bin/python" check.py
