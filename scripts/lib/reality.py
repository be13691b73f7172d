"""What scripts/simulator_vs_reality.sh reads off runs.

    reality.py metric RUN           the accuracy of a real run by samples, as `simulate.metric.curve` takes it
    reality.py table OUT CELL…      the pairs OUT/CELL and OUT/CELL-simulated as a table, and OUT/pairs.json

An error is (simulated - real) / real. Its target: 10 % of the wall time, 15 % of the barrier time and of the pulls. Barrier
times that are both below 1 % of the real wall time are not judged: what is left there is no waiting for others. pairs.json
has the time in the network (PS_APPLY_GRADS + STEP + PS_PARAM) beside them, which has no target: seconds for each worker, as
the barrier's.
"""

import csv
import json
import os
import sys

TARGETS = {"wall": 0.10, "barrier": 0.15, "pulls": 0.15}
NO_WAITING = 0.01  # of the wall time


def read_json(run):
    with open(os.path.join(run, "summary.json"), encoding="utf-8") as file:
        return json.load(file)


def metric(run):
    """A row for each LPR window: the samples in the parameters at its end. A window says what came before it."""
    summary = read_json(run)
    with open(os.path.join(run, "config.yaml"), encoding="utf-8") as file:
        batch = next(int(line.split(":")[1]) for line in file if line.startswith("  batch_size:"))
    samples_per_version = batch * summary["workers"]
    with open(os.path.join(run, "curve.csv"), encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["train_accuracy"]]
    if not rows:
        raise SystemExit(f"reality.py: {run}/curve.csv has no window with a training accuracy; lower "
                         "sync.lpr.window_clocks")
    print("samples,accuracy,loss")
    before = 0
    for row in rows:
        version = int(row["version"])
        if version <= before:
            continue
        middle = (before + version) // 2  # its mean is that of the window's middle
        print(f"{middle * samples_per_version},{row['train_accuracy']},{row['train_loss']}")
        before = version


def figures(run):
    summary = read_json(run)
    return {
        "wall": summary["wall_seconds"],
        "barrier": summary["phases"]["BARRIER"]["total_seconds"] / summary["workers"],
        "pulls": summary["pulls"],
        "network": sum(summary["phases"][phase]["total_seconds"]
                       for phase in ("PS_APPLY_GRADS", "STEP", "PS_PARAM")) / summary["workers"],
        "threshold": summary["final_threshold"],
        "overruns": summary["overruns"],
        "status": summary["status"],
    }


def compare(name, real, simulated):
    """One figure of a pair: (error, whether it is within the target, None where that is not judged). An error of None: there is
    nothing to divide by."""
    r, s = real[name], simulated[name]
    if name == "barrier" and max(r, s) < NO_WAITING * real["wall"]:
        return (s - r) / r if r else None, None
    if r == 0:
        return None, s == 0
    error = (s - r) / r
    return error, abs(error) <= TARGETS[name]


def pair(out, cell):
    real, simulated = figures(os.path.join(out, cell)), figures(os.path.join(out, cell + "-simulated"))
    row = {"cell": cell, "real": real, "simulated": simulated}
    for name in TARGETS:
        error, kept = compare(name, real, simulated)
        row[name] = {"error": error, "target": TARGETS[name], "kept": kept}
    return row


def cells_of(row, name, form):
    error = row[name]["error"]
    shown = "" if error is None else f"{100 * error:+.1f} %"
    return [form.format(row["real"][name]), form.format(row["simulated"][name]), shown,
            {True: "kept", False: "MISSED", None: "not judged"}[row[name]["kept"]]]


def phases(out):
    """What the run that the costs were taken from gives back of itself."""
    real, simulated = (read_json(os.path.join(out, run)) for run in ("calibration", "calibration-simulated"))
    print("calibration, s of all workers: phase, real, simulated")
    for phase, was in real["phases"].items():
        print(f"{phase:<15}  {was['total_seconds']:>9.3f}  {simulated['phases'][phase]['total_seconds']:>9.3f}")


def table(out, cells):
    pairs = [pair(out, cell) for cell in ["calibration", *cells]]
    header = ["cell", "wall s", "simulated", "error", "10 %", "barrier s", "simulated", "error", "15 %", "pulls",
              "simulated", "error", "15 %", "threshold", "simulated", "overruns"]
    rows = [header]
    for row in pairs:
        rows.append([row["cell"], *cells_of(row, "wall", "{:.2f}"), *cells_of(row, "barrier", "{:.2f}"),
                     *cells_of(row, "pulls", "{}"), *(str(row[side]["threshold"]) for side in ("real", "simulated")),
                     str(row["real"]["overruns"])])
    widths = [max(len(row[i]) for row in rows) for i in range(len(header))]
    for row in rows:
        print("  ".join(f"{cell:>{width}}" if i else f"{cell:<{width}}"
                        for i, (cell, width) in enumerate(zip(row, widths))))
    predicted = pairs[1:]
    judged = [row[name]["kept"] for row in predicted for name in TARGETS if row[name]["kept"] is not None]
    print(f"{sum(judged)} of {len(judged)} judged figures within their targets, of {len(TARGETS) * len(predicted)} predicted; "
          "the first line is the run that the costs were taken from")
    phases(out)
    with open(os.path.join(out, "pairs.json"), "w", encoding="utf-8") as file:
        json.dump(pairs, file, indent=1)
        file.write("\n")


if __name__ == "__main__":
    if len(sys.argv) == 3 and sys.argv[1] == "metric":
        metric(sys.argv[2])
    elif len(sys.argv) > 2 and sys.argv[1] == "table":
        table(sys.argv[2], sys.argv[3:])
    else:
        raise SystemExit(__doc__)
