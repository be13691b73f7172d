#!/usr/bin/python3
"""The main figures of one run or several, as PNG and PDF, from the files of their run directories (docs/REPORT.md): real runs
and simulated ones, finished or not. What a directory lacks is named, and the figures that the rest is enough for are made.

    scripts/plot_run.py RUN… [--out DIR]
        --out DIR   where the figures go (default: plots in the first run's directory)

Needs pandas and matplotlib: scripts/install_deps.sh --plots, whose packages are for Debian's own Python. In a notebook: load()
and any function of FIGURES.
Exit status: 0 there are figures, 1 there is nothing to draw, 2 wrong usage or no such directory.
"""

import argparse
import io
import json
import math
import pathlib
import sys

try:
    import pandas
    from matplotlib.figure import Figure
except ImportError as error:
    sys.exit(f"plot_run: {error}; scripts/install_deps.sh --plots installs pandas and matplotlib")

# As on the page of `paceline report --html` (web/src/theme.js says how they were chosen); daemons.Colours compares.
PHASES = {
    "BATCH": ("#b3aba4", ""), "COMPUTE_GRADS": ("#0063a2", ""), "APPLY_GRADS": ("#59bbf3", "//"),
    "PS_APPLY_GRADS": ("#269961", ".."), "STEP": ("#f6e02f", ""), "BARRIER": ("#c85300", "\\\\"), "PS_PARAM": ("#dd9900", "||"),
    "P_CACHE_PARAM": ("#c27cb0", ""), "T_CACHE_PARAM": ("#864d75", "--"), "unaccounted": ("#e4e4e4", "////"),
}
RUN_COLOURS = ("#00619f", "#d25c00", "#0b976b", "#c578a6", "#e9a100", "#4db9f3", "#000000")
RUN_DASHES = ("-", "--", ":", "-.")
RUN_MARKERS = ("o", "s", "^", "D", "v")
BARS_MAX = 128  # in one chart; phases.csv has all
BARS_MAX_OF_ALL = 512  # of all runs in one figure, but some of each
BARS_MIN = 4
DPI, PIXELS_MAX = 150, 60_000  # of a PNG, on a side: matplotlib refuses 65,536
COLUMNS = {
    "curve.csv": ("seconds", "version", "threshold", "lpr", "train_loss", "train_accuracy", "test_accuracy", "test_loss",
                  "iterations"),
    "phases.csv": ("node", "thread", "phase", "total_seconds"),
    "staleness.csv": ("unit", "staleness", "count"),
}
WORDS = ("phase", "unit")  # the columns that are no numbers
SECONDS = ("seconds", "seconds since the first grant")
ITERATIONS = ("iterations", "iterations (gradients in the global parameters)")


class Run:
    """A run directory: summary (a dictionary), curve, phases and staleness (data frames), each None where the directory does not
    have it; and missing, a line for each thing that it lacks."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.label = str(folder)
        self.missing = []
        self.summary = self._summary()
        self.curve = self._table("curve.csv")
        self.phases = self._table("phases.csv")
        self.staleness = self._table("staleness.csv")
        if self.curve is not None:  # an evaluation's row comes when it is done, and says when its version was reached
            self.curve = self.curve.sort_values("seconds", kind="stable")

    def _text(self, name):
        try:
            return (self.folder / name).read_text(encoding="utf-8", errors="replace")
        except OSError as error:
            self.missing.append(f"{name}: {error.strerror}")
            return None

    def _summary(self):
        text = self._text("summary.json")
        try:
            return None if text is None else dict(json.loads(text))
        except (ValueError, TypeError, RecursionError) as error:
            self.missing.append(f"summary.json: no JSON object: {error}")
            return None

    def _table(self, name):
        text = self._text(name)
        if text is None:
            return None
        if text and not text.endswith("\n"):
            self.missing.append(f"{name}: the last line is cut, and left out")
            text = text[:text.rfind("\n") + 1]
        try:
            table = pandas.read_csv(io.StringIO(text), float_precision="round_trip")  # to the last digit
            lacking = [column for column in COLUMNS[name] if column not in table]
            if lacking:
                self.missing.append(f"{name}: no column {', '.join(lacking)}; it is of another version")
                return None
            for column in COLUMNS[name]:
                if column not in WORDS:
                    table[column] = pandas.to_numeric(table[column])
            return table
        except ValueError as error:
            self.missing.append(f"{name}: {error}")
            return None


def load(*folders):
    """The runs, labelled by the last part of their folders where that tells them apart."""
    runs = [Run(folder) for folder in folders]
    names = [run.folder.resolve().name for run in runs]
    if len(set(names)) == len(names):
        for run, name in zip(runs, names):
            run.label = name
    return runs


# ---- where the time goes


def seconds_by_worker(run):
    """A row for each worker, a column for each phase: its seconds."""
    return run.phases.pivot_table(index=["node", "thread"], columns="phase", values="total_seconds", aggfunc="sum", sort=False)


def seconds_by_node(run):
    """A row for each node: the mean of its workers."""
    return seconds_by_worker(run).groupby(level="node", sort=False).mean()


def stacked(runs, title, seconds_of, name_of):
    """Bars of stacked phases, a chart for each run; None where no run has phases."""
    runs = [run for run in runs if run.phases is not None and len(run.phases)]
    if not runs:
        return None
    most = min(BARS_MAX, max(BARS_MIN, BARS_MAX_OF_ALL // len(runs)))
    tables = [seconds_of(run).head(most) for run in runs]
    heights = [0.7, *(0.7 + 0.24 * len(table) for table in tables)]
    figure = Figure(figsize=(9, sum(heights) + 1.0), layout="constrained")
    legend, *charts = figure.subplots(len(heights), 1, sharex=True, gridspec_kw={"height_ratios": heights})
    for run, table, chart in zip(runs, tables, charts):
        names = [name_of(index) for index in table.index]
        left = pandas.Series(0.0, index=table.index)
        for phase in [*(p for p in PHASES if p in table), *(p for p in table if p not in PHASES)]:
            colour, hatch = PHASES.get(phase, ("#ffffff", "xx"))
            # What no phase owns can be a little below nothing: clocks are read in pairs. A bar cannot.
            width = table[phase].fillna(0.0).clip(lower=0.0)
            chart.barh(names, width, left=left, color=colour, hatch=hatch, edgecolor="#00000066", linewidth=0, label=phase)
            left = left + width
        chart.invert_yaxis()
        of = len(seconds_of(run))
        chart.set_title(run.label + (f": the first {len(table)} of {of}" if of > len(table) else ""), fontsize="medium", loc="left")
    charts[-1].set_xlabel("seconds of a worker")
    figure.suptitle(title)
    marks = {label: mark for chart in charts for mark, label in zip(*chart.get_legend_handles_labels())}
    legend.axis("off")
    legend.legend(marks.values(), marks.keys(), loc="center", ncol=5, fontsize="small", frameon=False)
    return figure


def phases_workers(runs):
    return stacked(runs, "Where the time goes, by worker", seconds_by_worker, lambda worker: f"{worker[0]}.{worker[1]}")


def phases_nodes(runs):
    return stacked(runs, "Where the time goes, by node (mean of its workers)", seconds_by_node, lambda node: f"node {node}")


# ---- along the run


def draw(chart, runs, column, along, scale=1.0, thin=False, step=False, suffix=""):
    """A line for each run that has finite numbers in that column of its curve."""
    for place, run in enumerate(runs):
        if run.curve is None or column not in run.curve:  # of an older version
            continue
        rows = run.curve[run.curve[along].notna() & run.curve[column].notna() & run.curve[column].abs().ne(math.inf)]
        # Of training the windows where there are any: means since the evaluation before are of other lengths.
        if thin and rows["test_accuracy"].isna().any():
            rows = rows[rows["test_accuracy"].isna()]
        if rows.empty:
            continue
        chart.plot(rows[along], rows[column] * scale, color=RUN_COLOURS[place % len(RUN_COLOURS)],
                   linestyle=RUN_DASHES[place % len(RUN_DASHES)], linewidth=0.8 if thin else 1.6, alpha=0.8 if thin else 1.0,
                   marker=None if thin or step or len(rows) > 60 else RUN_MARKERS[place % len(RUN_MARKERS)], markersize=4,
                   drawstyle="steps-post" if step else "default", label=run.label + suffix)


def finished(figure, charts, title):
    """With a legend for each chart that has marks; None where none has."""
    if not any(chart.lines or chart.patches for chart in charts):
        return None
    for chart in charts:
        chart.grid(color="#d0d7de", linewidth=0.5)
        chart.set_axisbelow(True)
        if chart.get_legend_handles_labels()[0]:
            chart.legend(fontsize="small")
    figure.suptitle(title)
    return figure


def along_both(runs, title, unit, drawings):
    """Beside each other: against time, and against iterations."""
    figure = Figure(figsize=(11, 4.2), layout="constrained")
    charts = figure.subplots(1, 2, sharey=True)
    for chart, (column, name) in zip(charts, (SECONDS, ITERATIONS)):
        for drawing in drawings:
            draw(chart, runs, along=column, **drawing)
        chart.set_xlabel(name)
    charts[0].set_ylabel(unit)
    return finished(figure, charts, title)


def accuracy(runs):
    return along_both(runs, "Accuracy", "accuracy, %", [
        {"column": "test_accuracy", "scale": 100.0, "suffix": ", test"},
        {"column": "train_accuracy", "scale": 100.0, "suffix": ", training", "thin": True}])


def loss(runs):
    return along_both(runs, "Loss", "loss, mean over the samples", [
        {"column": "test_loss", "suffix": ", test"}, {"column": "train_loss", "suffix": ", training", "thin": True}])


def learning_rate(runs):
    return along_both(runs, "Learning rate", "learning rate", [{"column": "learning_rate"}])


def threshold_lpr(runs):
    """The threshold in force where it is finite, and the learning progress ratio of each window."""
    figure = Figure(figsize=(9, 6), layout="constrained")
    charts = figure.subplots(2, 1, sharex=True)
    draw(charts[0], runs, "threshold", SECONDS[0], step=True)
    charts[0].set_ylabel("threshold, iterations")
    charts[0].yaxis.get_major_locator().set_params(integer=True)
    draw(charts[1], runs, "lpr", SECONDS[0])
    charts[1].set_ylabel("LPR, %")
    charts[1].set_xlabel(SECONDS[1])
    return finished(figure, charts, "Threshold and learning progress ratio (LPR)")


def staleness_shares(run, unit):
    """Staleness to per cent of the run's applied gradients, over all workers."""
    counts = run.staleness[run.staleness["unit"] == unit].groupby("staleness")["count"].sum()
    return 100.0 * counts / counts.sum()


def staleness(runs):
    """How old the parameters were with which each applied gradient was computed, in both units."""
    have = [(place, run) for place, run in enumerate(runs) if run.staleness is not None]
    figure = Figure(figsize=(11, 4.2), layout="constrained")
    charts = figure.subplots(1, 2)
    for chart, unit in zip(charts, ("clocks", "gradients")):
        width = 0.8 / max(len(have), 1)
        for nth, (place, run) in enumerate(have):
            shares = staleness_shares(run, unit)
            if len(shares):
                chart.bar(shares.index + (nth - (len(have) - 1) / 2) * width, shares, width=width,
                          color=RUN_COLOURS[place % len(RUN_COLOURS)], label=run.label)
        chart.set_xlabel(f"staleness, {unit}")
    charts[0].set_ylabel("share of the gradients, %")
    return finished(figure, charts, "Staleness of the parameters that gradients were computed with")


FIGURES = {"phases_workers": phases_workers, "phases_nodes": phases_nodes, "accuracy": accuracy, "loss": loss,
           "learning_rate": learning_rate, "threshold_lpr": threshold_lpr, "staleness": staleness}


def dots_per_inch(figure):
    return min(DPI, PIXELS_MAX / max(figure.get_size_inches()))


def write(figure, folder, name):
    for ending, about in (("png", {"dpi": dots_per_inch(figure)}), ("pdf", {"metadata": {"CreationDate": None}})):
        figure.savefig(folder / f"{name}.{ending}", **about)
        print(folder / f"{name}.{ending}")


def main():
    parser = argparse.ArgumentParser(prog="plot_run", description="The main figures of runs, as PNG and PDF.")
    parser.add_argument("runs", nargs="+", metavar="RUN", help="run directories")
    parser.add_argument("--out", metavar="DIR", help="where the figures go (default: plots in the first run's directory)")
    options = parser.parse_args()
    for folder in options.runs:
        if not pathlib.Path(folder).is_dir():
            parser.error(f"{folder}: no such run directory; give the run.out of a run")
    runs = load(*options.runs)
    for run, folder in zip(runs, options.runs):
        for line in run.missing:
            print(f"plot_run: {folder}: {line}", file=sys.stderr)
    out = pathlib.Path(options.out or pathlib.Path(options.runs[0]) / "plots")
    made = 0
    try:
        for name, draw_it in FIGURES.items():
            try:
                if (figure := draw_it(runs)) is not None:
                    out.mkdir(parents=True, exist_ok=True)
                    write(figure, out, name)
                    made += 1
            except ValueError as error:  # numbers that cannot be drawn: the other figures can
                print(f"plot_run: {name}: {error}", file=sys.stderr)
    except OSError as error:
        sys.exit(f"plot_run: {out}: {error.strerror}")
    if not made:
        sys.exit("plot_run: nothing to draw")


if __name__ == "__main__":
    main()
