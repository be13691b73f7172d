#!/usr/bin/env bash
# Flower: a server's optimizer steps a batch norm's variance like a weight, past zero with FedAdam, and tens of rounds late with FedYogi.
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
from flwr.app import Array, ArrayRecord, ConfigRecord, MetricRecord, RecordDict
from flwr.serverapp.strategy import FedAdagrad, FedAdam, FedAvg, FedAvgM, FedYogi
from flwr.supercore.task_identity import TaskIdentity

logging.disable(logging.CRITICAL)
TaskIdentity.run_id = TaskIdentity.node_id = TaskIdentity.task_id = 1
ROUNDS, EPSILON = 40, 1e-5
START, MEASURED = 1.0, 0.02  # a batch norm's running variance before the first round, and as both clients measure it in each round


class Nodes:
    def get_node_ids(self):
        return [1, 2]


class Reply:
    def __init__(self, values):
        self.content = RecordDict({"arrays": record(values), "metrics": MetricRecord({"num-examples": 10})})

    def has_error(self):
        return False


def record(values):
    return ArrayRecord({"norm.running_var": Array(np.array(values, "float32"))})


def rounds(strategy):
    """The variance that the server gives out behind each round."""
    arrays = record([START])
    for number in range(1, ROUNDS + 1):
        list(strategy.configure_train(number, arrays, ConfigRecord(), Nodes()))
        arrays, _ = strategy.aggregate_train(number, [Reply([MEASURED]), Reply([MEASURED])])
        yield arrays["norm.running_var"].numpy()


STRATEGIES = {  # and whether it is the clients' variance behind round 1, and below zero at some time
    "FedAvg": (FedAvg(), True, False),
    "FedAvgM, momentum 0.9": (FedAvgM(server_momentum=0.9), True, True),
    "FedAdam": (FedAdam(), False, True),
    "FedYogi": (FedYogi(), False, False),
    "FedAdagrad": (FedAdagrad(), False, False),
}
print("flwr", flwr.__version__, "numpy", np.__version__)
print(f"guess: a server's optimizer steps what was trained. A variance of which both clients say {MEASURED} is {MEASURED}, and never below zero")
as_found = True
for name, (strategy, at_once, negative) in STRATEGIES.items():
    given = list(rounds(strategy))
    values = [float(array[0]) for array in given]
    below = [number for number, value in enumerate(values, 1) if value + EPSILON < 0]
    print(f"{name}: {', '.join(f'{values[at - 1]:.3f}' for at in (1, 5, 10, 20, 40))} behind rounds 1, 5, 10, 20 and 40;",
          f"from round {below[0]} on below zero, {len(below)} times" if below else "never below zero", f"({given[0].dtype})")
    as_found &= np.isclose(values[0], MEASURED) == at_once and bool(below) == negative
    if name == "FedAdam":
        with np.errstate(invalid="ignore"):
            normed = (np.float32(0.5) - np.float32(0.4)) / np.sqrt(np.float32(min(values) + EPSILON))
        print("  an activation by that variance:", normed)
        as_found &= bool(np.isnan(normed)) and below[0] < 20
    elif name in ("FedYogi", "FedAdagrad"):
        as_found &= values[-1] > 5 * MEASURED
print("as found: statistics are stepped like weights, overshoot below zero, or are late by tens of rounds" if as_found else "CHANGED")
sys.exit(0 if as_found else 1)
PY
cd "$tmp" && "$tmp/venv/bin/python" check.py 2>log || { tail -20 log; exit 1; }
