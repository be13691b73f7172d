#!/usr/bin/env bash
# Flower: FedAvg's mean of arrays of whole numbers is zero, so counters and int8 weights are wiped out in each round without a word.
set -eu
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
python3 -m venv "$tmp/venv"
"$tmp/venv/bin/pip" install -q flwr==1.42.0 numpy==2.4.6
cat >"$tmp/check.py" <<'PY'
import logging
import sys

import flwr
import numpy as np
from flwr.app import ArrayRecord, MetricRecord, RecordDict
from flwr.common import Code, FitRes, Status, ndarrays_to_parameters, parameters_to_ndarrays
from flwr.server.strategy import FedAvg, FedAvgM
from flwr.serverapp.strategy.strategy_utils import aggregate_arrayrecords

logging.disable(logging.CRITICAL)
EXAMPLES = (1, 3)


def by_strategy(strategy):
    def mean(arrays):
        results = [(None, FitRes(Status(Code.OK, ""), ndarrays_to_parameters([array]), examples, {}))
                   for array, examples in zip(arrays, EXAMPLES)]
        return parameters_to_ndarrays(strategy().aggregate_fit(1, results, [])[0])[0]
    return mean


def by_records(arrays):
    """What the newer interface's FedAvg calls."""
    return aggregate_arrayrecords([RecordDict({"arrays": ArrayRecord([array]), "metrics": MetricRecord({"examples": examples})})
                                   for array, examples in zip(arrays, EXAMPLES)], "examples").to_numpy_ndarrays()[0]


WAYS = {
    "FedAvg": by_strategy(FedAvg),
    "FedAvg, inplace=False": by_strategy(lambda: FedAvg(inplace=False)),
    "FedAvgM": by_strategy(lambda: FedAvgM(initial_parameters=ndarrays_to_parameters([np.zeros(1)]))),
    "newer interface": by_records,
}

print("flwr", flwr.__version__, "numpy", np.__version__)
print("guess: two clients with 100 have the mean 100, whatever the type; of 10 and 14, three times as many examples, it is 13")
seen = {}
for name, way in WAYS.items():
    for kind in (np.float32, np.int64, np.int8):
        equal, unlike = (way([np.array([value], kind) for value in pair]) for pair in ((100, 100), (10, 14)))
        seen[name, kind.__name__] = (float(equal[0]), float(unlike[0]))
        print(f"{name}, {kind.__name__}: {equal[0]:g} and {unlike[0]:g}, as {equal.dtype}")
RIGHT = (100, 13)
as_found = all(np.allclose(seen[name, "float32"], RIGHT) for name in WAYS)
as_found &= seen["FedAvg", "int64"] == seen["FedAvg", "int8"] == (0, 0)
as_found &= np.allclose(seen["FedAvg, inplace=False", "int64"], RIGHT) and seen["FedAvg, inplace=False", "int8"] == (-28, 13)
as_found &= np.allclose(seen["newer interface", "int64"], RIGHT) and np.allclose(seen["newer interface", "int8"], RIGHT)
print("as found: the default's mean of whole numbers is zero" if as_found else "CHANGED")
sys.exit(0 if as_found else 1)
PY
cd "$tmp" && "$tmp/venv/bin/python" check.py
