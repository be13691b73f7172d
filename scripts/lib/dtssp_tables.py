"""The tables of scripts/reproduce_dtssp.sh, from what `paceline report --compare --json` says of its runs.

    dtssp_tables.py table1 OUT     OUT/table1-REFRESH-THREADS.json, and the curves of OUT/table1/
    dtssp_tables.py sweep OUT POINT…
    dtssp_tables.py table2 OUT     OUT/table2-THREADS.json
"""

import csv
import json
import math
import sys
from pathlib import Path

BSP, SSP3, SSP10, DTSSP, WALK, ASP = "bsp", "ssp(3)", "ssp(10)", "dtssp(3, 3-10)", "random_walk(3, 3-10)", "asp"
POLICIES = (BSP, SSP3, DTSSP, SSP10, WALK, ASP)
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
        """(mean, low, high, verdict) of name - base in the table's unit; None where nothing is known of the pair."""
        if base not in self.names or name not in self.names:
            return None
        first, second = self.names.index(base), self.names.index(name)
        for pair in self.table(key)["pairs"]:
            if {pair["first"], pair["second"]} != {first, second} or pair["mean"] is None:
                continue
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

    def percent(self, key, base, name):
        """The change in per cent of the base's mean, as text."""
        change = self.change(key, base, name)
        if change is None:
            return "unknown"
        whole = self.mean(key, base)
        mean, low, high = (None if x is None else 100 * x / whole for x in change[:3])
        interval = "" if low is None else f" [{low:+.2f}, {high:+.2f}]"
        return f"{mean:+.2f} %{interval} {change[3]}"


def row(first, cells, width=13):
    print(f"  {first:<28}" + "".join(f"{cell:>{width}}" for cell in cells))


def number(value):
    return "-" if value is None else f"{value:.1f}"


def short(name):
    return SHORT.get(name, name)


def existing(out, pattern):
    path = out / pattern
    return Comparison(path) if path.exists() else None


def table1(out):
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
            row(str(4 * threads), (number(c.mean("time", name)) for name in POLICIES))
        for base in (BSP, SSP3, SSP10, WALK):
            print(f"  DTSSP against {base}")
            for threads, c in found:
                published = PUBLISHED[4 * threads].get(base)
                said = "not published" if published is None else f"published {published:+.2f} %"
                print(f"    {4 * threads:>3} workers  {c.percent('time', base, DTSSP)};  {said}")
        for threads, c in found:
            print(f"  winner with {4 * threads} workers: {c.table('time')['winner'] or 'none'}")
        for threads, c in found:
            phases(c, f"Fig. 9, 10: {4 * threads} workers, refresh_clocks {refresh}")
    path_of_threshold(out)


def phases(c, title):
    """Where the time of a worker went."""
    groups = [(name, c.json["groups"][c.names.index(name)]) for name in POLICIES if name in c.names]
    groups = [(name, group) for name, group in groups if group["split"]]
    print(f"\n{title}: seconds of a worker in each phase")
    row("", (short(name) for name, _ in groups))
    for phase in groups[0][1]["split"]["phases"]:
        row(phase, (number(group["split"]["phases"][phase]) for _, group in groups))
    row("staleness, clocks: mean", (f"{group['staleness']['clocks']['mean']:.2f}" for _, group in groups))
    row("staleness, gradients: mean", (f"{group['staleness']['gradients']['mean']:.2f}" for _, group in groups))


def windows(run):
    with open(run / "curve.csv", encoding="utf-8") as file:
        return [line for line in csv.DictReader(file) if line["train_accuracy"]]


def lpr_deviation(accuracy, samples):
    """Of an LPR in per cent between two windows of so many samples each, when nothing has changed: each window's share
    of right samples has the variance p (1 - p) / n, their difference twice that, and it is divided by p."""
    return 100 * math.sqrt(2 * (1 - accuracy) / (accuracy * samples))


def path_of_threshold(out):
    for threads in (1, 2, 4):
        run = out / f"table1/null-{threads}/dtssp-1"
        if not (run / "curve.csv").exists():
            continue
        rows = windows(run)
        workers = 4 * threads
        if len(rows) < 3:
            continue
        clocks = int(rows[1]["version"]) - int(rows[0]["version"])
        samples = clocks * workers * 128
        moves = [(now, before) for before, now in zip(rows, rows[1:]) if now["threshold"] != before["threshold"]]
        print(f"\nDTSSP's threshold, {workers} workers, seed 1: {len(rows)} windows of {clocks} clocks, {samples} samples")
        for now, before in moves[:12]:
            done = 100 * int(now["version"]) / int(rows[-1]["version"])
            print(f"  {before['threshold']} -> {now['threshold']} after {done:.2f} % of the run, {float(now['seconds']):.1f} s: "
                  f"LPR {float(now['lpr']):+.2f} %")
        more = f", {len(moves) - 12} further moves" if len(moves) > 12 else ""
        print(f"  {len(moves)} moves{more}; at the end {rows[-1]['threshold']}")
        late = [float(line["lpr"]) for line in rows[len(rows) // 2:]]
        mean = sum(late) / len(late)
        seen = math.sqrt(sum((x - mean) ** 2 for x in late) / len(late))
        p = sum(float(line["train_accuracy"]) for line in rows[len(rows) // 2:]) / len(late)
        expected = lpr_deviation(p, samples)
        print(f"  noise in LPR where nothing is learned any more (second half, accuracy {100 * p:.1f} %): standard deviation "
              f"{expected:.2f} % expected (binomial), {seen:.2f} % seen;\n"
              f"  +-5 % is {5 / expected:.0f} standard deviations away: noise alone moves the threshold "
              + ("practically never" if 5 / expected > 5 else "now and then"))


def sweep(out, points):
    found = [(point, existing(out, f"sweep-{point}.json")) for point in points]
    found = [(point, c) for point, c in found if c]
    if not found:
        return
    print(f"\nWhat the result owes to the assumed cluster: 16 workers, {found[0][1].table('time')['title']}, s, refresh_clocks null")
    row("", map(short, POLICIES))
    for point, c in found:
        row(point, (number(c.mean("time", name)) for name in POLICIES))
    for base in (BSP, SSP3, SSP10, WALK, ASP):
        print(f"  DTSSP against {base}")
        for point, c in found:
            print(f"    {point:<28} {c.percent('time', base, DTSSP)}")


def table2(out):
    found = [(threads, existing(out, f"table2-{threads}.json")) for threads in (1, 2, 4)]
    found = [(threads, c) for threads, c in found if c and c.table("accuracy")]
    if not found:
        return
    title = found[0][1].table("time")["title"].replace("time at ", "after ")
    low, high = PUBLISHED_ACCURACY
    print(f"\nTable 2, test accuracy in % {title} (published: {low} to {high} for every policy, after 100000)")
    names = [name for name in POLICIES if name in found[0][1].names]
    row("workers", map(short, names))
    for threads, c in found:
        row(str(4 * threads), (number(c.mean("accuracy", name)) for name in names))
    for base in (BSP, SSP3):
        print(f"  DTSSP against {base}, points")
        for threads, c in found:
            change = c.change("accuracy", base, DTSSP)
            if change is None:
                print(f"    {4 * threads:>3} workers  unknown")
                continue
            mean, least, most, verdict = change
            interval = "" if least is None else f" [{least:+.2f}, {most:+.2f}]"
            print(f"    {4 * threads:>3} workers  {mean:+.2f}{interval} {verdict}")


def main():
    command, out, *more = sys.argv[1:]
    {"table1": table1, "table2": table2, "sweep": lambda folder: sweep(folder, more)}[command](Path(out))


if __name__ == "__main__":
    main()
