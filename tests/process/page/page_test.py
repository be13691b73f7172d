"""The page of `paceline report --html` in a real browser: what it shows is what the run directories say, in both themes, on a
phone and on paper, and it asks for nothing from anywhere. Skipped where there is no Chromium (scripts/install_deps.sh --browser has it)."""

import collections
import csv
import json
import pathlib
import re
import shutil
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import browser
import harness
from page_case import MARKS, ThreePolicies, number

PHASES = ("BATCH", "COMPUTE_GRADS", "APPLY_GRADS", "PS_APPLY_GRADS", "STEP", "BARRIER", "PS_PARAM", "P_CACHE_PARAM", "T_CACHE_PARAM")
EVIL = "</script><script>document.title='taken over'<"  # a folder's name: without a slash but for the one of a folder in it
# What is said where the pointer is in the middle of a chart's plot.
HOVER = """
  const chart = document.querySelector(`#${arguments[0]} .chart`);
  chart.scrollIntoView({block: 'center'});
  const { left, top, width, height } = chart.getBoundingClientRect();
  const plot = top + Number(chart.dataset.plot);
  const at = { clientX: left + width / 2, clientY: (plot + top + height) / 2, bubbles: true };
  chart.firstElementChild.dispatchEvent(new MouseEvent('mousemove', at));
  return new Promise((done) => setTimeout(() => done(chart.querySelector('.tip')?.parentElement.innerText ?? ''), 0));"""
OVERFLOW = "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
OPEN_ALL = "document.querySelectorAll('details').forEach((details) => { details.open = true; });"
FIGURES = ["phases-runs", "accuracy-time", "accuracy-iterations", "loss-time", "loss-iterations", "learning-rate", "threshold", "lpr",
           "staleness-clocks", "staleness-gradients", "bytes", "rates"]


class ReportPage(ThreePolicies):
    """Runs of three policies on one page, and runs that something is wrong with."""

    def assert_marks(self, figures):
        charts = {chart["id"]: chart for chart in self.browser.evaluate(MARKS)}
        self.assertEqual(sorted(charts), sorted(figures))
        for name, chart in charts.items():
            if name.startswith("phases-"):  # of most phases these runs have next to nothing
                bars = {"runs": len(self.runs), "nodes": 2, "workers": 4}[name.split("-")[1]]
                self.assertEqual(max(chart["filled"].values(), default=0), bars, chart)
                for colour, expected in zip(chart["series"], self.bars_to_see(name), strict=False):
                    self.assertGreaterEqual(chart["filled"].get(colour, 0), expected, chart)
            elif name.startswith("gaps-") and name != f"gaps-{len(self.runs) - 1}":  # the last, asp, has the largest
                self.assertGreater(len(chart["filled"]), 1, chart)
            elif name.startswith(("gaps-", "timeline-", "staleness-")) or name == "bytes":
                self.assertEqual(sorted(chart["filled"]), sorted(set(chart["series"])), chart)
            else:
                self.assertEqual(sorted(chart["lines"]), sorted(chart["series"]), chart)
            self.assertGreater(len(chart["labels"]), 4, chart)  # the axes' numbers and units

    def bars_to_see(self, figure):
        """Of each phase, in how many bars of a chart it is a twentieth or more."""
        shown = dict.fromkeys(PHASES, 0)
        if figure == "phases-runs":
            for run in self.runs:
                output = self.summary(run)
                for phase, of in output["phases"].items():
                    shown[phase] += of["total_seconds"] > 0.05 * output["wall_seconds"] * output["workers"]
            return list(shown.values())
        _, kind, place = figure.split("-")
        with open(self.runs[int(place)] / "phases.csv", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        bars = collections.defaultdict(collections.Counter)
        for row in rows:
            bars[row["node"] if kind == "nodes" else (row["node"], row["thread"])][row["phase"]] += float(row["total_seconds"])
        for bar in bars.values():
            for phase in PHASES:
                shown[phase] += bar[phase] > 0.05 * bar.total()
        return list(shown.values())

    # ---- what is drawn

    def test_every_chart_has_marks_in_both_themes_on_a_screen_and_on_a_phone(self):
        of_runs = [f"phases-{what}-{i}" for what in ("nodes", "workers") for i in range(3)]
        of_runs += [f"{what}-{i}" for what in ("gaps", "timeline") for i in range(3)]
        for width, dark in ((1100, False), (1100, True), (390, False), (390, True)):
            with self.subTest(width=width, dark=dark):
                self.browser.show(self.page, width, dark)
                self.assert_marks(FIGURES + of_runs)
                self.browser.evaluate(OPEN_ALL)
                self.assertEqual(self.browser.evaluate(OVERFLOW), 0)
                self.assert_quiet(self.page)

    def test_a_line_says_its_numbers_under_the_pointer_and_no_axis_a_raw_one(self):
        self.browser.show(self.page)
        for figure, pattern in (("threshold", r"\d+\.\d s\nbsp: threshold 0\ndtssp: threshold \d+$"),
                                ("loss-time", r"\d+\.\d s\n" + r"\n".join(
                                    rf"{run}: {what} \d\.\d{{4}} at \d+\.\d" for run in ("bsp", "dtssp", "asp")
                                    for what in ("test", "training"))),
                                ("learning-rate", r"[^\n]* iterations\nbsp: rate 0\.01 at "),
                                ("accuracy-iterations", r"[^\n]* iterations\nbsp: test \d+\.\d\d % at [\s\S]*asp: training [^\n]* % at ")):
            with self.subTest(figure=figure):
                self.assertRegex(self.browser.evaluate(HOVER, figure), "^" + pattern)
        for chart in self.browser.evaluate(MARKS):
            raw = [label for label in chart["labels"] if re.search(r"\.\d{4}", label)]
            self.assertEqual(raw, [], chart["id"])

    def test_a_run_whose_nodes_could_not_report_shows_what_they_had_said(self):
        failed = self.folder / "failed"
        shutil.copytree(self.runs[0], failed)
        output = self.summary(failed)
        for phase in output["phases"].values():
            phase.update(total_seconds=0.0, count=0, mean_ms=0.0)
        output.update(status="failed", unaccounted_seconds=0.0)
        (failed / "summary.json").write_text(json.dumps(output), encoding="utf-8")
        with open(failed / "phases.csv", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        (failed / "phases_so_far.csv").write_text("node,thread,phase,total_seconds\n" + "".join(
            f"{row['node']},{row['thread']},{row['phase']},{row['total_seconds']}\n" for row in rows), encoding="utf-8")
        for name in ("phases.csv", "phases_histogram.csv"):
            (failed / name).unlink()
        self.browser.show(self.report("failed.html", failed, self.runs[0]))
        tables = self.browser.evaluate(browser.TABLE, "#phases-runs details")
        self.assertEqual(tables[1][1:], tables[2][1:])
        self.assertGreater(number(tables[1][2]), 0.0)

    def test_its_sections_can_be_gone_to(self):
        self.browser.show(self.page)
        links = self.browser.evaluate("""return [...document.querySelectorAll('nav a')].map((link) => (
            [link.textContent, document.getElementById(link.hash.slice(1)).textContent]))""")
        self.assertEqual([name for name, _ in links],
                         ["Summary", "Time", "bsp", "dtssp", "asp", "Learning", "Synchronisation", "Traffic", "Configuration"])
        self.assertTrue(all(name == heading for name, heading in links), links)

    def test_charts_of_several_runs_have_one_scale(self):
        self.browser.show(self.page)
        charts = {chart["id"]: chart for chart in self.browser.evaluate(MARKS)}
        for kind in ("nodes", "workers"):
            numbers = [[label for label in charts[f"phases-{kind}-{i}"]["labels"] if re.fullmatch(r"[\d.\u202f]+", label)
                        and label not in ("0.0", "0.1", "1.0", "1.1")] for i in range(3)]
            self.assertEqual(numbers[0], numbers[1])
            self.assertEqual(numbers[0], numbers[2])
        bands = [[label for label in charts[f"gaps-{i}"]["labels"] if "ahead" in label] for i in range(3)]
        self.assertTrue(bands[0])
        self.assertEqual(bands[0], bands[1])
        self.assertEqual(bands[0], bands[2])

    def test_axes_have_units(self):
        self.browser.show(self.page)
        charts = {chart["id"]: chart["labels"] for chart in self.browser.evaluate(MARKS)}
        for figure, units in {"phases-runs": ["seconds of a worker"], "loss-time": ["seconds since the first grant", "loss"],
                              "accuracy-iterations": ["accuracy, %"], "threshold": ["threshold, iterations"], "lpr": ["LPR, %"],
                              "staleness-clocks": ["clocks", "share of the gradients, %"], "bytes": ["MB"]}.items():
            for unit in units:
                self.assertIn(unit, charts[figure])

    def test_the_theme_follows_the_reader_while_the_page_is_open(self):
        self.browser.show(self.page)
        colours = """return [getComputedStyle(document.body).backgroundColor,
            ...new Set([...document.querySelectorAll('svg text')].map((text) => text.getAttribute('fill')))].sort()"""
        self.assertEqual(self.browser.evaluate(colours), ["#1b1f24", "#57606a", "rgb(255, 255, 255)"])
        # The page is told first, and this test after it.
        self.browser.evaluate("""window.told = new Promise((done) => {
            matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => requestAnimationFrame(done)); });""")
        self.browser.set_dark(True)
        self.browser.evaluate("return window.told.then(() => true)")
        self.assertEqual(self.browser.evaluate(colours), ["#9aa4af", "#e6edf3", "rgb(18, 22, 27)"])
        self.assert_quiet(self.page)

    def test_it_prints(self):
        self.browser.show(self.page, dark=True)
        paper = self.folder / "three.pdf"
        self.browser.pdf(paper)
        self.assertGreater(paper.read_bytes().count(b"/Type /Page\n"), 2)
        self.assert_quiet(self.page)

    # ---- what may be wrong with a run

    def test_what_is_missing_is_named_and_the_rest_is_shown(self):
        crashed, empty = self.folder / "crashed", self.folder / "empty"
        shutil.copytree(self.runs[1], crashed)
        (crashed / "summary.json").unlink()
        (crashed / "phases.csv").write_text("node,thread\n", encoding="utf-8")
        empty.mkdir()
        page = self.report("crashed.html", crashed, empty)
        self.browser.show(page)
        self.assert_marks(["accuracy-time", "accuracy-iterations", "loss-time", "loss-iterations", "learning-rate", "threshold", "lpr",
                           "staleness-clocks", "staleness-gradients", "gaps-0", "timeline-0", "rates"])
        output = self.browser.evaluate("return [...document.querySelectorAll('.card')].map((card) => card.innerText)")
        self.assertRegex(output[0], r"(?s)crashed unfinished.*no summary.json.*phases.csv:1: header is 'node,thread', expected")
        for name in ("summary.json", "phases.csv", "curve.csv", "staleness.csv", "config.yaml"):
            self.assertIn(name, output[1])
        self.assert_quiet(page)

    def test_no_name_and_no_text_of_a_run_becomes_markup(self):
        run = self.folder / EVIL / "script><img src=x onerror=alert(1)><!--"
        shutil.copytree(self.runs[0], run)
        summary = self.summary(run)
        summary.update(status="failed", reason=f"{EVIL}/script>", policy="<b>bold</b>", lost=["<!-- <script>"], seed=2**64 - 1)
        (run / "summary.json").write_text(json.dumps(summary), encoding="utf-8")
        (run / "config.yaml").write_text(f"# </script><script>\n{EVIL}: [1\n", encoding="utf-8")  # no YAML, so it is shown as it is
        other = self.folder / "other"
        shutil.copytree(self.runs[0], other)
        (other / "config.yaml").write_text(f"{EVIL}: 1\n", encoding="utf-8")  # as of a version that knew that key
        page = self.report("evil.html", run, other)
        self.browser.show(page)
        self.browser.evaluate(OPEN_ALL)
        self.assertEqual(self.browser.evaluate("return document.title"), "Paceline report")
        self.assertEqual(self.browser.evaluate("return document.querySelectorAll('img, b, script').length"), 3)
        text = self.browser.evaluate("return document.body.innerText")
        for shown in (run.name, "<b>bold</b>", "lost <!-- <script>", f"{EVIL}/script>", str(2**64 - 1), f"{EVIL}: [1",
                      f"unknown key {EVIL}"):
            self.assertIn(shown, text)
        self.assert_quiet(page)

    def test_the_page_of_a_long_run_stays_small_and_keeps_its_peaks(self):
        run = self.folder / "long"
        shutil.copytree(self.runs[1], run)
        rows = [f"{i * 0.36},{i},{3 + i // 20000},{i % 97 / 10},{1 + 1e-9 * i},{0.5 + 1e-7 * i},,,{4 * i},0.01" for i in range(100_000)]
        rows[54_321] = "19555.56,54321,5,0.1,7.25,0.5,,,217284,0.01"
        (run / "curve.csv").write_text("\n".join([(run / "curve.csv").read_text(encoding="utf-8").split("\n")[0], *rows, ""]),
                                       encoding="utf-8")
        page = self.report("long.html", *[run] * 4)
        self.assertLess(page.stat().st_size, 3_000_000)
        self.browser.show(page)
        rows = self.browser.evaluate(browser.TABLE, "#loss-time details")
        self.assertIn(["long", "training", "19555.6", "54321", "217284", "7.25"], [[row[0].split("/")[-1], *row[1:]] for row in rows])
        self.assert_quiet(page)


if __name__ == "__main__":
    harness.main()
