"""scripts/plot_run.py: what its figures draw is what the run directories say. Skipped where pandas or matplotlib are not
installed (scripts/install_deps.sh --plots). See harness.py."""

import contextlib
import csv
import importlib.util
import io
import json
import os
import re
import shutil
import subprocess
import sys
import unittest
from unittest import mock

import harness
from harness import DaemonTest

MISSING = [name for name in ("pandas", "matplotlib") if importlib.util.find_spec(name) is None]
DEBIANS = "/usr/bin/python3"  # for which Debian's packages are; the first in PATH may be another
if MISSING and __name__ == "__main__" and sys.executable != DEBIANS and os.access(DEBIANS, os.X_OK):
    os.execv(DEBIANS, [DEBIANS, *sys.argv])
SIMULATION = """\
run: {{seed: 7}}
cluster: {{nodes: 2, threads_per_node: 2}}
sync: {{policy: dtssp, lpr: {{window_clocks: 25}}}}
train:
  {{model: layers, layers: [{{kind: flatten}}, {{kind: dense, out: 10}}], batch_size: 8, total_iterations: 1000, eval_every_clocks: 50}}
emulate: {{base_step: 100ms, slowdown: [1, 1.5], jitter: lognormal, jitter_spread: 0.3}}
simulate: {{mode: training}}
data: {{kind: synthetic, path: {data}}}
"""
DEADLINE = 300.0  # seconds, of a program that imports pandas and matplotlib and draws, on a busy machine
FIGURES = ("phases_workers", "phases_nodes", "accuracy", "loss", "learning_rate", "threshold_lpr", "staleness")


def rows_of(file):
    with open(file, encoding="utf-8") as text:
        return list(csv.DictReader(text))


@unittest.skipIf(MISSING, f"not installed: {', '.join(MISSING)} (scripts/install_deps.sh --plots)")
class Plots(DaemonTest):
    """Figures of two simulated runs, and of directories that something is wrong with."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        os.environ["MPLBACKEND"] = "Agg"
        # A home that cannot be written would have it say so on standard error; and the fonts are found once, below.
        os.environ["MPLCONFIGDIR"] = str(cls._shared / "matplotlib")
        (cls._shared / "matplotlib").mkdir()
        config = cls._shared / "simulate.yaml"
        config.write_text(SIMULATION.format(data=cls._shared / "data"), encoding="utf-8")
        cls.runs = [cls._shared / policy for policy in ("dtssp", "asp")]
        for run in cls.runs:
            subprocess.run([harness.BIN / "paceline", "simulate", config, "--out", run, f"sync.policy={run.name}"],
                           stdout=subprocess.DEVNULL, check=True)
        spec = importlib.util.spec_from_file_location("plot_run", harness.SOURCE / "scripts/plot_run.py")
        cls.plot_run = importlib.util.module_from_spec(spec)
        sys.dont_write_bytecode = True
        spec.loader.exec_module(cls.plot_run)

    def plot(self, *arguments, **environment):
        return subprocess.run([sys.executable, harness.SOURCE / "scripts/plot_run.py", *arguments], capture_output=True,
                              text=True, timeout=DEADLINE, check=False, env={**os.environ, **environment})

    def figure(self, name, *runs):
        return self.plot_run.FIGURES[name](self.plot_run.load(*(runs or self.runs)))

    def assert_line(self, chart, label, expected):
        """The line of that label goes through these points."""
        found = [line for line in chart.lines if line.get_label() == label]
        self.assertEqual(len(found), 1, [line.get_label() for line in chart.lines])
        points = list(zip(found[0].get_xdata(), found[0].get_ydata(), strict=True))
        for (x, y), (x_expected, y_expected) in zip(points, expected, strict=True):
            self.assertEqual(x, x_expected)
            self.assertAlmostEqual(y, y_expected, delta=1e-9 * abs(y_expected))

    # ---- what is drawn

    def test_bars_of_workers_are_the_rows_of_the_file_and_all_of_them_its_walls(self):
        for run, chart in zip(self.runs, self.figure("phases_workers").axes[1:], strict=True):
            drawn = {bars.get_label(): [bar.get_width() for bar in bars] for bars in chart.containers}
            expected = {}
            for row in rows_of(run / "phases.csv"):
                expected.setdefault(row["phase"], []).append(float(row["total_seconds"]))
            self.assertEqual(drawn.keys(), expected.keys())
            for phase, of in expected.items():  # a bar knows its two ends, and its width by them
                for width, seconds in zip(drawn[phase], of, strict=True):
                    self.assertAlmostEqual(width, max(seconds, 0.0), delta=1e-12, msg=phase)
            self.assertEqual([label.get_text() for label in chart.get_yticklabels()], ["0.0", "0.1", "1.0", "1.1"])
            ends = [0.0] * 4  # of each worker's bars so far: each begins where the one before it has ended
            for bars in chart.containers:
                for worker, bar in enumerate(bars):
                    self.assertAlmostEqual(bar.get_x(), ends[worker], places=9)
                    ends[worker] = bar.get_x() + bar.get_width()
            for worker, end in enumerate(ends):
                self.assertAlmostEqual(end, sum(max(of[worker], 0.0) for of in expected.values()), places=9)

    def test_bars_of_nodes_are_means_and_the_summary_is_their_sum(self):
        for run, chart in zip(self.runs, self.figure("phases_nodes").axes[1:], strict=True):
            summary = json.loads((run / "summary.json").read_text(encoding="utf-8"))
            drawn = {bars.get_label(): [bar.get_width() for bar in bars] for bars in chart.containers}
            self.assertEqual(len(drawn["BARRIER"]), 2)
            for phase, of in summary["phases"].items():
                self.assertAlmostEqual(sum(drawn[phase]) * 2, of["total_seconds"], places=6)

    def test_lines_go_through_the_rows_of_the_curve(self):
        for run in self.runs:
            # As drawn: rows of the same time, an evaluation's and a window's, stay in their order.
            rows = sorted(rows_of(run / "curve.csv"), key=lambda row: float(row["seconds"]))

            def column(along, name, scale=1.0, of=rows):
                return [(float(row[along]), float(row[name]) * scale) for row in of if row[name] not in ("", "inf")]

            windows = [row for row in rows if not row["test_accuracy"]] or rows
            for chart, along in zip(self.figure("accuracy").axes, ("seconds", "iterations"), strict=True):
                self.assert_line(chart, f"{run.name}, test", column(along, "test_accuracy", 100.0))
                self.assert_line(chart, f"{run.name}, training", column(along, "train_accuracy", 100.0, windows))
            for chart, along in zip(self.figure("loss").axes, ("seconds", "iterations"), strict=True):
                self.assert_line(chart, f"{run.name}, test", column(along, "test_loss"))
                self.assert_line(chart, f"{run.name}, training", column(along, "train_loss", of=windows))
            for chart, along in zip(self.figure("learning_rate").axes, ("seconds", "iterations"), strict=True):
                self.assert_line(chart, run.name, column(along, "learning_rate"))
        rows = rows_of(self.runs[0] / "curve.csv")
        threshold, lpr = self.figure("threshold_lpr").axes
        self.assertEqual(len(threshold.lines), 1)  # that of asp is infinite
        rows.sort(key=lambda row: float(row["seconds"]))  # as drawn; rows of the same time stay in their order
        for chart, name in ((threshold, "threshold"), (lpr, "lpr")):
            (line,) = (line for line in chart.lines if line.get_label() == self.runs[0].name)
            drawn = [row for row in rows if row[name] not in ("", "inf")]
            self.assertEqual(list(line.get_xdata()), [float(row["seconds"]) for row in drawn], name)
            self.assertEqual(list(line.get_ydata()), [float(row[name]) for row in drawn], name)

    def test_staleness_bars_are_shares_of_all_gradients(self):
        for chart, unit in zip(self.figure("staleness").axes, ("clocks", "gradients"), strict=True):
            for nth, (run, bars) in enumerate(zip(self.runs, chart.containers, strict=True)):
                counts = {}
                for row in rows_of(run / "staleness.csv"):
                    if row["unit"] == unit:
                        counts[int(row["staleness"])] = counts.get(int(row["staleness"]), 0) + int(row["count"])
                total = sum(counts.values())
                for bar, (staleness, count) in zip(bars, sorted(counts.items()), strict=True):
                    self.assertAlmostEqual(bar.get_height(), 100.0 * count / total)
                    # Beside each other over their number, that of the first run left of it.
                    self.assertAlmostEqual(bar.get_x() + bar.get_width(), staleness + 0.4 * nth)

    # ---- files

    def test_each_figure_is_a_png_and_a_pdf(self):
        done = self.plot(*self.runs, "--out", self.folder / "figures")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        files = {file.name: file.read_bytes() for file in (self.folder / "figures").iterdir()}
        self.assertEqual(sorted(files), sorted(f"{name}.{ending}" for name in FIGURES for ending in ("png", "pdf")))
        self.assertEqual(sorted(done.stdout.split()), sorted(str(self.folder / "figures" / name) for name in files))
        for name, content in files.items():
            self.assertTrue(content.startswith(b"%PDF-" if name.endswith("pdf") else b"\x89PNG\r\n"), name)

    def test_what_a_crashed_run_lacks_is_named_and_the_rest_is_drawn(self):
        crashed = self.folder / "crashed"
        shutil.copytree(self.runs[0], crashed)
        for name in ("summary.json", "phases.csv"):
            (crashed / name).unlink()
        curve = (crashed / "curve.csv").read_text(encoding="utf-8")
        (crashed / "curve.csv").write_text(curve + "9.25,1", encoding="utf-8")
        (crashed / "staleness.csv").write_text("node,thread,old\n", encoding="utf-8")
        done = self.plot(crashed)
        self.assertEqual(done.returncode, 0)
        self.assertEqual(done.stderr.splitlines(), [
            f"plot_run: {crashed}: {line}" for line in (
                "summary.json: No such file or directory", "curve.csv: the last line is cut, and left out",
                "phases.csv: No such file or directory",
                "staleness.csv: no column unit, staleness, count; it is of another version")])
        self.assertEqual(sorted(file.stem for file in (crashed / "plots").glob("*.png")),
                         ["accuracy", "learning_rate", "loss", "threshold_lpr"])
        rows = [row for row in curve.splitlines()[1:] if row.split(",")[4] and not row.split(",")[6]]
        training, = (line for line in self.figure("loss", crashed).axes[0].lines if line.get_label().endswith(", training"))
        self.assertEqual(len(training.get_xdata()), len(rows))

    def test_a_figure_that_cannot_be_drawn_is_named_and_the_others_are_drawn(self):
        def cannot(_):
            raise ValueError("image is too large")

        output = io.StringIO()
        arguments = ["plot_run", str(self.runs[0]), "--out", str(self.folder / "figures")]
        with (mock.patch.dict(self.plot_run.FIGURES, loss=cannot), mock.patch.object(sys, "argv", arguments),
              contextlib.redirect_stderr(output), contextlib.redirect_stdout(io.StringIO())):
            self.plot_run.main()
        self.assertEqual(output.getvalue(), "plot_run: loss: image is too large\n")
        self.assertEqual(sorted(file.stem for file in (self.folder / "figures").glob("*.png")), sorted({*FIGURES} - {"loss"}))

    def test_a_tall_figure_has_fewer_pixels_than_matplotlib_refuses(self):
        for inches in (5, 400, 5000):
            dots = self.plot_run.dots_per_inch(self.plot_run.Figure(figsize=(9, inches)))
            self.assertLess(inches * dots, 2 ** 16)
            self.assertLessEqual(dots, 150)

    def test_rubbish_is_named_and_a_run_with_nothing_to_draw_is_an_error(self):
        (self.folder / "rubbish").mkdir()
        for name, text in (("summary.json", "[" * 100_000), ("curve.csv", "\x00,\xff\n1\n"), ("phases.csv", ""),
                           ("staleness.csv", "node,thread,unit,staleness,count\n0,0,clocks,many,1\n")):
            (self.folder / "rubbish" / name).write_text(text, encoding="utf-8")
        done = self.plot(self.folder / "rubbish")
        self.assertEqual(done.returncode, 1)
        for line in ("summary.json: no JSON", "curve.csv: no column seconds", "phases.csv: No columns", "staleness.csv: Unable to parse",
                     "nothing to draw"):
            self.assertIn(line, done.stderr)
        self.assertNotIn("Traceback", done.stderr)
        self.assertFalse((self.folder / "rubbish/plots").exists())

    def test_a_directory_that_is_not_there_is_wrong_usage(self):
        done = self.plot(self.folder / "none")
        self.assertEqual(done.returncode, 2)
        self.assertIn("none: no such run directory", done.stderr)

    def test_without_the_packages_one_line_says_what_to_do(self):
        (self.folder / "pandas.py").write_text("raise ImportError('No module named pandas')", encoding="utf-8")
        done = self.plot(self.runs[0], PYTHONPATH=str(self.folder))
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stderr, "plot_run: No module named pandas; scripts/install_deps.sh --plots installs pandas and matplotlib\n")

    # ---- notebooks

    def test_the_notebook_lines_of_the_documentation_work(self):
        document = (harness.SOURCE / "docs/REPORT.md").read_text(encoding="utf-8")
        blocks = re.findall(r"```python\n(.*?)```", document, re.DOTALL)
        self.assertEqual(len(blocks), 2)
        shutil.copytree(self.runs[0], self.folder / "runs/mine")
        shutil.copytree(self.runs[1], self.folder / "runs/asp")
        (self.folder / "scripts").symlink_to(harness.SOURCE / "scripts")
        done = subprocess.run([sys.executable, "-B", "-c", "\n".join(blocks)], cwd=self.folder, capture_output=True,
                              text=True, timeout=DEADLINE, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertRegex(done.stdout, r"BARRIER\s+[\d.]+")


if __name__ == "__main__":
    harness.main()
