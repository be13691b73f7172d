"""The tables of scripts/reproduce_dtssp.sh, from what `paceline report --compare --json` says of its runs.

    dtssp_tables.py table1 OUT     OUT/table1-REFRESH-THREADS.json, and the curves of OUT/table1/
    dtssp_tables.py sweep OUT POINT…
    dtssp_tables.py table2 OUT     OUT/table2-[refresh-N-]THREADS.json, and the curves of OUT/table2/
    dtssp_tables.py full OUT       OUT/full-[refresh-N-]THREADS.json, and the curves of OUT/full/
"""

import csv
import json
import math
import re
import statistics
import sys
from pathlib import Path

BSP, SSP3, SSP10, DTSSP, WALK, ASP = "bsp", "ssp(3)", "ssp(10)", "dtssp(3, 3-10)", "random_walk(3, 3-10)", "asp"
POLICIES = (BSP, SSP3, DTSSP, SSP10, WALK, ASP)
FOLDERS = {BSP: "bsp", SSP3: "ssp3", DTSSP: "dtssp", SSP10: "ssp10", WALK: "walk", ASP: "asp"}  # of runs, before the seed
SHORT = {DTSSP: "dtssp 3-10", WALK: "walk 3-10"}
# Kim and Rhee 2019, by workers: DTSSP's learning time against BSP's and SSP(3)'s.
PUBLISHED = {4: {BSP: -3.65, SSP3: -1.49}, 8: {BSP: -9.31, SSP3: -8.52}, 16: {BSP: -18.0, SSP3: -14.72}}
PUBLISHED_ACCURACY = (80.65, 81.66)


class Comparison:
    """One JSON of `report --compare`."""

    def __init__(self, path):
        self.json = json.loads(Path(path).read_text(encoding="utf-8"))
        self.names = [group["name"] for group in self.json["groups"]]

    def table(self, key):
        return next((table for table in self.json["tables"] if table["key"] == key), None)

    def mean(self, key, name):
        table = self.table(key)
        return table["values"][self.names.index(name)]["mean"] if table and name in self.names else None

    def change(self, key, base, name):
        """(mean, low, high, verdict) of name - base in the table's unit; None where nothing is known of the pair, and
        without figures where runs of it are censored."""
        if base not in self.names or name not in self.names:
            return None
        first, second = self.names.index(base), self.names.index(name)
        for pair in self.table(key)["pairs"]:
            if {pair["first"], pair["second"]} != {first, second}:
                continue
            if pair["verdict"] == "censored":
                return None, None, None, "censored"  # a figure would be one of the runs that did well
            if pair["mean"] is None:
                return None
            sign = 1 if pair["first"] == first else -1
            ends = [None if pair[end] is None else sign * pair[end] for end in ("low", "high")]
            return sign * pair["mean"], *ends[::sign], self.verdict(key, pair, name)
        return None

    def verdict(self, key, pair, name):
        better = {"first_is_better": pair["first"], "second_is_better": pair["second"]}.get(pair["verdict"])
        if better is None:
            return pair["verdict"].replace("_", " ")
        words = ("higher", "lower") if key == "accuracy" else ("faster", "slower")
        return words[self.names[better] != name] + (" by less than 1 point" if pair["inside_margin"] else "")

    def paired_mean(self, key, base, name):
        """The base's mean over the seeds that both have, which are those that the change is of."""
        values = self.table(key)["values"]
        ours, theirs = (values[self.names.index(group)]["by_seed"] for group in (base, name))
        return statistics.fmean(x for seed, x in ours.items() if x is not None and theirs.get(seed) is not None)

    def said(self, key, base, name, in_percent=True):
        """The change, in per cent of the base or in the table's unit, as text."""
        change = self.change(key, base, name)
        if change is None:
            return "unknown"
        if change[0] is None:
            return change[3]
        scale, unit = (100 / self.paired_mean(key, base, name), " %") if in_percent else (1, "")
        mean, low, high = (None if x is None else scale * x for x in change[:3])
        interval = "" if low is None else f" [{signed(low)}, {signed(high)}]"
        return f"{signed(mean)}{unit}{interval} {change[3]}"

    def mean_shown(self, key, name):
        """A policy's mean as text; with runs that are censored there is none, but how many were not: 3/5."""
        table = self.table(key)
        if table is None or name not in self.names:
            return "-"
        values = table["values"][self.names.index(name)]["by_seed"].values()
        there = sum(value is not None for value in values)
        return number(self.mean(key, name)) if there == len(values) else f"{there}/{len(values)}"

    def winner(self, key):
        return self.table(key)["winner"] or "none"


def row(first, cells, width=13):
    print(f"  {first:<28}" + "".join(f"{cell:>{width}}" for cell in cells))


def signed(value):
    """To two places, and never -0.00."""
    return f"{round(value, 2) + 0.0:+.2f}"


def number(value):
    return "-" if value is None else f"{value:.1f}"


def short(name):
    return SHORT.get(name, name)


def existing(out, pattern):
    path = out / pattern
    return Comparison(path) if path.exists() else None


def configuration(run):
    """Every key of a run's config.yaml with its value as it is written."""
    path, values = [], {}
    for line in (run / "config.yaml").read_text(encoding="utf-8").splitlines():
        match = re.match(r"( *)(\w+):(?: (.*))?$", line)
        if match:
            path = [*path[:len(match.group(1)) // 2], match.group(2)]
            values[".".join(path)] = match.group(3)
    return values


def assumed_cluster(values):
    """What the simulator was told of the cluster, in lines: figures are of this cluster, and of no other."""
    compute = {key.rpartition(".")[2]: value for key, value in values.items() if key.startswith("simulate.compute.")}
    kind, mean, slowdown = compute["distribution"], compute["mean"], compute["slowdown"]
    spread = {"constant": "without jitter", "pareto": f"Pareto with exponent {compute['shape']}"}.get(
        kind, f"{kind} with a coefficient of variation of {compute['cv']}")
    if kind == "emulated":
        mean, slowdown = "null", "[]"
        spread = f"jitter {values['emulate.jitter']}, spread {values['emulate.jitter_spread']}"
    mean = values["emulate.base_step"] if mean == "null" else mean
    slowdown = values["emulate.slowdown"] if slowdown == "[]" else slowdown
    speeds = " : ".join(slowdown.strip("[]").split(", ")) if slowdown != "[]" else "1 for all"
    yield f"{values['cluster.nodes']} nodes, a computation of {mean} x {speeds}, {spread}"
    if float(compute["slow_share"]) > 0:
        yield f"slow periods: {compute['slow_share']} of the time, {compute['slow_length']} long, x {compute['slow_factor']}"
    if compute["pause_every"] != "null":
        yield f"pauses: {compute['pause_length']} every {compute['pause_every']}"
    network = {key: values[f"simulate.network.{key}"] for key in ("latency", "bandwidth", "server_bandwidth")}
    node, server = ("without limit" if network[key] == "null" else f"{network[key]} per second"
                    for key in ("bandwidth", "server_bandwidth"))
    yield (f"latency {network['latency']}; a node's link {node}, the server's {server}, each direction; "
           f"servers: {values['cluster.shards']}")
    yield metric_of(values)


def metric_of(values):
    metric = {key.rpartition(".")[2]: value for key, value in values.items() if key.startswith("simulate.metric.")}
    if metric["curve"] != "null":
        return f"training accuracy, which DTSSP follows: the curve in {metric['curve']}, noise {metric['noise']}"
    if metric["final_accuracy"] == "null":
        return "training accuracy, which DTSSP follows: measured (training mode)"
    return (f"training accuracy, which DTSSP follows: from {metric['initial_accuracy']} towards {metric['final_accuracy']}, half of the "
            f"way after {metric['half_samples']} samples, noise {metric['noise']}")


def print_assumed_cluster(run):
    print("\nThe cluster is assumed, not measured (configs/dtssp_paper.yaml):")
    for line in assumed_cluster(configuration(run)):
        print(f"  {line}")


def table1(out):
    any_run = next(iter(sorted(out.glob("table1/*/*/config.yaml"))), None)
    if any_run:
        print_assumed_cluster(any_run.parent)
    for refresh in ("null", "1"):
        found = [(threads, existing(out, f"table1-{refresh}-{threads}.json")) for threads in (1, 2, 4)]
        found = [(threads, c) for threads, c in found if c]
        if not found:
            continue
        title = found[0][1].table("time")["title"]
        print(f"\nTable 1, {title}, s, simulated; refresh_clocks {refresh}"
              + (" (the paper's caches)" if refresh == "null" else "") + "; asp always with 1")
        row("workers", map(short, POLICIES))
        for threads, c in found:
            row(str(4 * threads), (c.mean_shown("time", name) for name in POLICIES))
        for base in (BSP, SSP3, SSP10, WALK):
            print(f"  DTSSP against {base}")
            for threads, c in found:
                published = PUBLISHED[4 * threads].get(base)
                said = "not published" if published is None else f"published {published:+.2f} %"
                print(f"    {4 * threads:>3} workers  {c.said('time', base, DTSSP)};  {said}")
        for threads, c in found:
            print(f"  winner with {4 * threads} workers: {c.table('time')['winner'] or 'none'}")
            censored(c, "time")
        for threads, c in found:
            phases(c, f"Fig. 10: {4 * threads} workers, refresh_clocks {refresh}")
            phases_by_node(out / f"table1/{refresh}-{threads}", f"Fig. 9: {4 * threads} workers, refresh_clocks {refresh}")
    ends = [(f"{4 * threads} workers, refresh_clocks {refresh}", out / f"table1/{refresh}-{threads}")
            for refresh in ("null", "1") for threads in (1, 2, 4)]
    ends_of_threshold(ends)
    for _, folder in ends:
        path_of_threshold(folder / "dtssp-1", learns_to_the_end=False)


def phases(c, title):
    """Where the time of a worker went."""
    groups = [(name, c.json["groups"][c.names.index(name)]) for name in POLICIES if name in c.names]
    groups = [(name, group) for name, group in groups if group["split"]]  # none of a policy without a run that counts
    if not groups:
        return
    print(f"\n{title}: seconds of a worker in each phase")
    row("", (short(name) for name, _ in groups))
    for phase in groups[0][1]["split"]["phases"]:
        row(phase, (number(group["split"]["phases"][phase]) for _, group in groups))
    row("staleness, clocks: mean", (f"{group['staleness']['clocks']['mean']:.2f}" for _, group in groups))
    row("staleness, gradients: mean", (f"{group['staleness']['gradients']['mean']:.2f}" for _, group in groups))


def phases_by_node(folder, title):
    """Where the time of each node's workers went in the runs of seed 1, whatever they had to wait for: the phases in which
    nodes differ."""
    runs = [(name, folder / f"{FOLDERS[name]}-1") for name in POLICIES]
    runs = [(name, seconds_by_node(run / "phases.csv")) for name, run in runs if succeeded(run)]
    if not runs:
        return
    print(f"\n{title}, seed 1: seconds of a worker in each phase, mean of the node's")
    row("", (short(name) for name, _ in runs))
    for phase in ("COMPUTE_GRADS", "PS_APPLY_GRADS", "BARRIER", "PS_PARAM"):
        for node in sorted(runs[0][1]):
            row(f"{phase}, node {node}", (number(seconds[node][phase]) for _, seconds in runs))


def succeeded(run):
    path = run / "summary.json"
    return path.exists() and json.loads(path.read_text(encoding="utf-8"))["status"] == "ok"


def seconds_by_node(path):
    """Of a phases.csv: {node: {phase: seconds of one of its workers}}."""
    seconds, threads = {}, {}
    with open(path, encoding="utf-8") as file:
        for line in csv.DictReader(file):
            of_node = seconds.setdefault(int(line["node"]), {})
            of_node[line["phase"]] = of_node.get(line["phase"], 0.0) + float(line["total_seconds"])
            threads.setdefault(int(line["node"]), set()).add(line["thread"])
    return {node: {phase: total / len(threads[node]) for phase, total in of_node.items()} for node, of_node in seconds.items()}


def censored(c, key):
    for run in c.table(key)["censored"]:
        print(f"    censored, {run}")


def windows(run):
    """The rows of curve.csv that are an LPR window's; one of an evaluation may say how training went, too."""
    with open(run / "curve.csv", encoding="utf-8") as file:
        return [line for line in csv.DictReader(file) if line["train_accuracy"] and not line["test_accuracy"]]


def lpr_deviation(accuracy, samples):
    """Of an LPR in per cent between two windows of so many samples each, when nothing has changed: each window's share
    of right samples has the variance p (1 - p) / n, their difference twice that, and it is divided by p."""
    return 100 * math.sqrt(2 * (1 - accuracy) / (accuracy * samples))


def value_of(run, key):
    """Of a key in the run's config.yaml that is there once."""
    text = (run / "config.yaml").read_text(encoding="utf-8")
    return re.search(rf"^ +{key}: *([^ #\n]+)", text, re.MULTILINE).group(1)


def ends_of_threshold(named_folders):
    """DTSSP's threshold at the end of every seed's run: a path is one seed's, and seeds differ."""
    lines = []
    for name, folder in named_folders:
        ends = {}
        for path in folder.glob("dtssp-*/summary.json"):
            summary = json.loads(path.read_text(encoding="utf-8"))
            ends[summary["seed"]] = summary["final_threshold"]
        if ends:
            lines.append((name, " ".join(f"{ends[seed]:>2}" for seed in sorted(ends)), " ".join(map(str, sorted(ends)))))
    if lines:
        print("\nDTSSP's threshold at the end of the run, seed by seed")
    for name, thresholds, seeds in lines:
        print(f"  {name:<30} {thresholds}  of seeds {seeds}")


def path_of_threshold(run, learns_to_the_end):
    """Where DTSSP's threshold went in a run, and what of that noise alone can do."""
    rows = windows(run) if (run / "curve.csv").exists() else []
    if len(rows) < 3:
        return
    clocks = int(rows[1]["version"]) - int(rows[0]["version"])
    workers = 4 * int(value_of(run, "threads_per_node"))
    samples = clocks * workers * int(value_of(run, "batch_size"))
    print(f"\nDTSSP's threshold, {run.parent.parent.name}, {workers} workers, "
          f"refresh_clocks {value_of(run, 'refresh_clocks')}, seed 1: {len(rows)} windows of {clocks} clocks, {samples} samples")
    moves = [(now, before) for before, now in zip(rows, rows[1:]) if now["threshold"] != before["threshold"]]
    if len(moves) <= 12:
        for now, before in moves:
            done = 100 * int(now["version"]) / int(rows[-1]["version"])
            print(f"  {before['threshold']} -> {now['threshold']} after {done:.2f} % of the run, {float(now['seconds']):.1f} s: "
                  f"LPR {float(now['lpr']):+.2f} %")
    else:
        path = [line["threshold"] for line in rows]
        print(f"  {' '.join(path[:64])}" + (f" and {len(path) - 64} further windows" if len(path) > 64 else ""))
    up = sum(int(now["threshold"]) > int(before["threshold"]) for now, before in moves)
    print(f"  {up} moves up, {len(moves) - up} down; at the end {rows[-1]['threshold']}")
    if learns_to_the_end:
        noise_while_learning(rows, samples)
    else:
        noise_at_the_end(rows[len(rows) // 2:], samples)


def noise_at_the_end(late, samples):
    lprs = [float(line["lpr"]) for line in late]
    p = sum(float(line["train_accuracy"]) for line in late) / len(late)
    expected = lpr_deviation(p, samples)
    print(f"  noise in LPR where nothing is learned any more (second half, accuracy {100 * p:.1f} %): standard deviation "
          f"{expected:.2f} % expected (binomial), {statistics.pstdev(lprs):.2f} % seen;\n"
          f"  +-5 % is {5 / expected:.0f} standard deviations away: noise alone moves the threshold "
          + ("practically never" if 5 / expected > 5 else "now and then"))


def noise_while_learning(rows, samples):
    """What is seen is no noise there, but what is expected is in each window."""
    expected = [lpr_deviation(max(float(line["train_accuracy"]), 1 / samples), samples) for line in rows]
    reach = [5 / max(expected), 5 / min(expected)]
    print(f"  noise expected in LPR from the size of the windows alone (binomial): standard deviation {min(expected):.2f} to "
          f"{max(expected):.2f} %;\n"
          f"  +-5 % is {reach[0]:.1f} to {reach[1]:.1f} standard deviations away: noise alone moves the threshold "
          + ("practically never" if reach[0] > 5 else "now and then" if reach[0] > 2 else "in many windows"))


def sweep(out, points):
    found = [(point, existing(out, f"sweep-{point}.json")) for point in points]
    found = [(point, c) for point, c in found if c]
    if not found:
        return
    print(f"\nWhat the result owes to the assumed cluster: 16 workers, {found[0][1].table('time')['title']}, s, refresh_clocks null")
    row("", map(short, POLICIES))
    for point, c in found:
        row(point, (c.mean_shown("time", name) for name in POLICIES))
    for base in (BSP, SSP3, SSP10, WALK, ASP):
        print(f"  DTSSP against {base}")
        for point, c in found:
            print(f"    {point:<28} {c.said('time', base, DTSSP)}")
    for _, c in found:
        censored(c, "time")
    ends_of_threshold((point, out / "sweep" / point) for point, _ in found)


def accuracies(out, part):
    for name, refresh in comparisons(out, part):
        found = [(threads, existing(out, f"{part}-{name}{threads}.json")) for threads in (1, 2, 4)]
        found = [(threads, c) for threads, c in found if c]
        for threads, c in found:
            if not c.table("accuracy"):
                print(f"\n{part}, {4 * threads} workers, refresh_clocks {refresh}: no run was evaluated")
                censored(c, "time")
        found = [(threads, c) for threads, c in found if c.table("accuracy")]
        if not found:
            continue
        names = [policy for policy in POLICIES if any(policy in c.names for _, c in found)]
        some = next(iter(sorted((out / part / f"{name}{found[0][0]}").glob("*/config.yaml")))).parent
        said = f"refresh_clocks {refresh}, learning rate {value_of(some, 'lr')}"
        if part == "table2":
            print(f"\nTable 2 is CUT TO THE BUDGET: {value_of(some, 'total_iterations')} iterations of {value_of(some, 'model')} on "
                  f"generated data, mini-batches of {value_of(some, 'batch_size')};\n"
                  "published are 100000 of a larger network on CIFAR-10, mini-batches of 128")
        final_accuracy(found, names, said)
        time_of_all(found, names, said)
        time_to_accuracy(found, names, said)
        print(f"\nTable 2, staleness of the parameters in gradients, mean; {said}")
        row("workers", map(short, names))
        for threads, c in found:
            row(str(4 * threads), (gradients_missing(c, name) for name in names))
        ends_of_threshold((f"{4 * threads} workers", out / part / f"{name}{threads}") for threads, _ in found)
        for threads, _ in found:
            path_of_threshold(out / part / f"{name}{threads}/dtssp-1", learns_to_the_end=True)


def comparisons(out, part):
    """(what stands before the threads in names, refresh_clocks), the paper's first."""
    others = {match.group(1) for path in out.glob(f"{part}-refresh-*.json")
              if (match := re.fullmatch(rf"{part}-refresh-(\d+)-\d\.json", path.name))}
    return [("", "null (the paper's)"), *((f"refresh-{n}-", n) for n in sorted(others, key=int))]


def final_accuracy(found, names, said):
    title = found[0][1].table("time")["title"].replace("time at ", "after ")
    low, high = PUBLISHED_ACCURACY
    print(f"\nTable 2, test accuracy in % {title}; {said} (published: {low} to {high} for every policy, after 100000)")
    row("workers", map(short, names))
    for threads, c in found:
        row(str(4 * threads), (c.mean_shown("accuracy", name) for name in names))
    pairs_of_all(found, names, "accuracy", ", points")


def time_of_all(found, names, said):
    """The virtual seconds that the same iterations take."""
    print(f"\nTable 2, {found[0][1].table('time')['title']}, s; {said}")
    row("workers", map(short, names))
    for threads, c in found:
        row(str(4 * threads), (c.mean_shown("time", name) for name in names))
    pairs_of_all(found, names, "time", ", s")


def pairs_of_all(found, names, key, unit):
    """Each policy against each, DTSSP first; and the winner by the statistics of `report --compare`."""
    first = sorted(names, key=lambda name: name != DTSSP)
    for n, name in enumerate(first):
        for base in first[n + 1:]:
            print(f"  {'DTSSP' if name == DTSSP else short(name)} against {base}{unit}")
            for threads, c in found:
                print(f"    {4 * threads:>3} workers  {c.said(key, base, name, in_percent=False)}")
    for threads, c in found:
        print(f"  winner in {key} with {4 * threads} workers: {c.winner(key)}")
        censored(c, key)


def time_to_accuracy(found, names, said):
    """The instant at which the mean of three successive evaluations reached the target. A policy with a run that never did has
    no mean, but how many did."""
    found = [(threads, c) for threads, c in found if c.table("time_to_accuracy")]
    if not found:
        return
    print(f"\nTable 2, {found[0][1].table('time_to_accuracy')['title']}, s; {said}; 3/5: three of five runs reached it, "
          "and the others are censored")
    row("workers", map(short, names))
    for threads, c in found:
        row(str(4 * threads), (c.mean_shown("time_to_accuracy", name) for name in names))
    for base in names:
        if base == DTSSP:
            continue
        print(f"  DTSSP against {base}")
        for threads, c in found:
            print(f"    {4 * threads:>3} workers  {c.said('time_to_accuracy', base, DTSSP)}")
    for threads, c in found:
        print(f"  winner with {4 * threads} workers: {c.winner('time_to_accuracy')}")
        censored(c, "time_to_accuracy")


def gradients_missing(c, name):
    if name not in c.names:
        return "-"
    staleness = c.json["groups"][c.names.index(name)]["staleness"]["gradients"]
    return f"{staleness['mean']:.1f}" if staleness["histogram"] else "-"


def main():
    command, out, *more = sys.argv[1:]
    parts = {"table1": table1, "sweep": lambda folder: sweep(folder, more)}
    parts |= {part: lambda folder, part=part: accuracies(folder, part) for part in ("table2", "full")}
    parts[command](Path(out))


if __name__ == "__main__":
    main()
