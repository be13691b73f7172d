"""What scripts/simulator_vs_reality.sh reads off runs.

    reality.py metric RUN           the accuracy of a real run by samples, as `simulate.metric.curve` takes it
    reality.py table OUT N CALIBRATION… -- CELL…
                                    the pairs OUT/CELL and OUT/CELL-simulated as a table, and OUT/pairs.json; those that
                                    were simulated in training mode, too (OUT/CELL-trained), with their thresholds, window
                                    by window. Each cell was predicted from N calibrating runs, from the second on in
                                    OUT/CELL-simulated-2 and so on
    reality.py exchanges RUN        of a traced run: how many exchanges (PS_APPLY_GRADS) shared an instant with another one, a
                                    pull, an application or the real beginning of somebody's computation (its first 6 ms;
                                    the rest of an emulated one is sleep), and how long those took that did not

An error is (simulated - real) / real. Its target: 10 % of the wall time, 15 % of the barrier time and of the pulls. Barrier
times that are both below 1 % of the real wall time are not judged: what is left there is no waiting for others. pairs.json
has the time in the network (PS_APPLY_GRADS + STEP + PS_PARAM) beside them, which has no target: seconds for each worker, as
the barrier's.
"""

import json
import os
import sys
from pathlib import Path

from dtssp_tables import lpr_deviation, value_of, windows

TARGETS = {"wall": 0.10, "barrier": 0.15, "pulls": 0.15}
NO_WAITING = 0.01  # of the wall time


def read_json(run):
    with open(os.path.join(run, "summary.json"), encoding="utf-8") as file:
        return json.load(file)


def metric(run):
    """A row for each LPR window: the samples in the parameters at its end. A window says what came before it."""
    summary = read_json(run)
    samples_per_version = int(value_of(Path(run), "batch_size")) * summary["workers"]
    rows = windows(Path(run))
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


def numbered(name, number):
    """The folder of what was predicted from this calibrating run."""
    return name if number == 1 else f"{name}-{number}"


def labelled(cell, number):
    """What the tables call it."""
    return cell if number == 1 else f"{cell}, calibration {number}"


def pairs_of(out, cell, calibrations=1):
    """A row for each way in which the cell was simulated, from each calibrating run."""
    rows = []
    for number in range(1, calibrations + 1):
        rows.append(pair(out, labelled(cell, number), cell, numbered(cell + "-simulated", number)))
        trained = numbered(cell + "-trained", number)
        if os.path.exists(os.path.join(out, trained)):
            rows.append(pair(out, labelled(cell + ", trained", number), cell, trained))
    return rows


def pair(out, name, cell, run):
    real, simulated = figures(os.path.join(out, cell)), figures(os.path.join(out, run))
    row = {"cell": name, "real": real, "simulated": simulated}
    for name in TARGETS:
        error, kept = compare(name, real, simulated)
        row[name] = {"error": error, "target": TARGETS[name], "kept": kept}
    return row


def cells_of(row, name, form):
    error = row[name]["error"]
    shown = "" if error is None else f"{100 * error:+.1f} %"
    return [form.format(row["real"][name]), form.format(row["simulated"][name]), shown,
            {True: "kept", False: "MISSED", None: "not judged"}[row[name]["kept"]]]


def phases(out, calibration):
    """What the run that the costs were taken from gives back of itself."""
    real, simulated = (read_json(os.path.join(out, run)) for run in (calibration, calibration + "-simulated"))
    print(f"{calibration}, s of all workers: phase, real, simulated")
    for phase, was in real["phases"].items():
        print(f"{phase:<15}  {was['total_seconds']:>9.3f}  {simulated['phases'][phase]['total_seconds']:>9.3f}")


def path(run):
    """DTSSP's windows, by version: what it saw, what that made it decide (1: up, -1: down, 0: neither, whether or not the
    threshold was at its end; None: it had no window before) and the threshold from there on."""
    above, below = (float(value_of(Path(run), key)) for key in ("increase_above", "decrease_below"))
    seen = {}
    for row in windows(Path(run)):
        lpr = float(row["lpr"]) if row["lpr"] else None
        seen[int(row["version"])] = {"accuracy": float(row["train_accuracy"]), "lpr": lpr, "threshold": int(row["threshold"]),
                                     "decision": None if lpr is None else (lpr > above) - (lpr < below)}
    return seen


def paths(out, cell, number):
    """The threshold of a cell, window by window: real, predicted from a calibrating run's curve, and trained."""
    runs = {"real": cell, "timing": numbered(cell + "-simulated", number), "training": numbered(cell + "-trained", number)}
    by_run = {name: path(os.path.join(out, run)) for name, run in runs.items()}
    workers = read_json(os.path.join(out, cell))["workers"]
    batch, clocks = (int(value_of(Path(out, cell), key)) for key in ("batch_size", "window_clocks"))
    samples = workers * batch * clocks
    versions = sorted(set.intersection(*(set(seen) for seen in by_run.values())))
    print(f"{labelled(cell, number)}, windows of {clocks} clocks, {samples} samples: real, in timing mode (by the calibrating run's "
          "curve), in training mode; noise is LPR's standard deviation by chance alone (binomial)")
    columns = ["version", *(f"{what}{name}" for what in ("accuracy ", "LPR ", "threshold ") for name in runs), "noise"]
    print("  ".join(columns))
    for version in versions:
        seen = [by_run[name][version] for name in runs]
        cells = [str(version), *(f"{100 * s['accuracy']:.1f} %" for s in seen),
                 *("" if s["lpr"] is None else f"{s['lpr']:+.1f} %" for s in seen), *(str(s["threshold"]) for s in seen),
                 f"{lpr_deviation(max(seen[0]['accuracy'], 1 / samples), samples):.1f} %"]
        print("  ".join(f"{cell:>{len(column)}}" for cell, column in zip(cells, columns)))
    decided = [version for version in versions if by_run["real"][version]["decision"] is not None]
    same = {name: sum(by_run[name][version]["decision"] == by_run["real"][version]["decision"] for version in decided)
            for name in runs}
    print(f"the decision (up, down or neither) is the real run's in {same['timing']} of {len(decided)} windows in timing mode, in "
          f"{same['training']} in training mode")
    return {"windows": by_run, "decided": len(decided), "same": same}


def exchanges(run):
    with open(os.path.join(run, "trace.json"), encoding="utf-8") as file:
        events = [event for event in json.load(file)["traceEvents"] if event["ph"] == "X"]
    spans = [(e["name"], e["ts"], e["ts"] + (min(e["dur"], 6000) if e["name"] == "COMPUTE_GRADS" else e["dur"]), (e["pid"], e["tid"]))
             for e in events if e["name"] in ("PS_APPLY_GRADS", "PS_PARAM", "COMPUTE_GRADS", "apply")]
    pushes = [span for span in spans if span[0] == "PS_APPLY_GRADS"]
    # A worker's own computation ends where its exchange begins, and its pull begins where that ends.
    alone = sorted(end - begin for _, begin, end, who in pushes
                   if not any(begin < other[2] and other[1] < end and other[3] != who for other in spans))
    print(f"{run}: {len(alone)} of {len(pushes)} exchanges met nobody: median {alone[len(alone) // 2] / 1e3:.2f} ms, mean "
          f"{sum(alone) / len(alone) / 1e3:.2f}, quickest 10 % up to {sorted(p[2] - p[1] for p in pushes)[len(pushes) // 10] / 1e3:.2f}")


def table(out, number, calibrations, cells):
    pairs = [row for cell in calibrations for row in pairs_of(out, cell)]
    pairs += [row for cell in cells for row in pairs_of(out, cell, number)]
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
    predicted = pairs[len(calibrations):]
    judged = [row[name]["kept"] for row in predicted for name in TARGETS if row[name]["kept"] is not None]
    print(f"{sum(judged)} of {len(judged)} judged figures within their targets, of {len(TARGETS) * len(predicted)} predicted; "
          + ("the first line is the run that the costs were taken from" if len(calibrations) == 1 else
             f"the first {len(calibrations)} lines are the runs that the costs were taken from"))
    for calibration in calibrations:
        phases(out, calibration)
    for cell in cells:
        for n in range(1, number + 1):
            trained = next((row for row in pairs if row["cell"] == labelled(cell + ", trained", n)), None)
            if trained:
                trained["path"] = paths(out, cell, n)
    with open(os.path.join(out, "pairs.json"), "w", encoding="utf-8") as file:
        json.dump(pairs, file, indent=1)
        file.write("\n")


if __name__ == "__main__":
    if len(sys.argv) == 3 and sys.argv[1] == "metric":
        metric(sys.argv[2])
    elif len(sys.argv) == 3 and sys.argv[1] == "exchanges":
        exchanges(sys.argv[2])
    elif len(sys.argv) > 4 and sys.argv[1] == "table" and "--" in sys.argv:
        end = sys.argv.index("--")
        table(sys.argv[2], int(sys.argv[3]), sys.argv[4:end], sys.argv[end + 1:])
    else:
        raise SystemExit(__doc__)
