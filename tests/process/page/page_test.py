"""The page of `paceline report --html` in a real browser: what it shows is what the run directories say, in both themes, on a
phone and on paper, and it asks for nothing from anywhere. Skipped where there is no Chromium (scripts/install_deps.sh --browser has it)."""

import collections
import csv
import json
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import browser
import harness

PHASES = ("BATCH", "COMPUTE_GRADS", "APPLY_GRADS", "PS_APPLY_GRADS", "STEP", "BARRIER", "PS_PARAM", "P_CACHE_PARAM", "T_CACHE_PARAM")
EVIL = "</script><script>document.title='taken over'<"  # a folder's name: without a slash but for the one of a folder in it
SIMULATION = """\
run: {seed: 7, trace: true}
cluster: {nodes: 2, threads_per_node: 2}
sync: {lpr: {window_clocks: 25}}
train: {model: layers, layers: [{kind: flatten}, {kind: dense, out: 10}], batch_size: 8, total_iterations: 2000, eval_every_clocks: 50}
emulate: {base_step: 100ms, slowdown: [1, 1.5], jitter: lognormal, jitter_spread: 0.3}
simulate: {mode: training}
data: {kind: synthetic, path: DATA}
"""

# Of every chart: the colour of each line that it has drawn of its data, how many filled shapes it has of each colour, and its texts.
# The legend, which has the same colours, is above the plot. What cannot be seen does not count: a bar of nothing, a line of one point.
MARKS = """
  return [...document.querySelectorAll('figure .chart')].map((chart) => {
    const series = JSON.parse(chart.dataset.colours);
    const plot = chart.getBoundingClientRect().top + Number(chart.dataset.plot);
    const lines = [];
    const filled = {};
    for (const path of chart.querySelectorAll('svg path')) {
      const { bottom, width, height } = path.getBoundingClientRect();
      if (!(bottom >= plot)) continue;
      const [fill, stroke] = [path.getAttribute('fill'), path.getAttribute('stroke')];
      if (fill === 'none' && series.includes(stroke) && width + height > 1) lines.push(stroke);
      if (series.includes(fill) && width > 0.1 && height > 0.1) filled[fill] = (filled[fill] ?? 0) + 1;
    }
    return {id: chart.parentElement.id, series, lines, filled,
            labels: [...chart.querySelectorAll('svg text')].map((text) => text.textContent)};
  });"""
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
FIGURES = ["phases-runs", "accuracy-time", "accuracy-iterations", "loss-time", "loss-iterations", "threshold", "lpr", "staleness-clocks",
           "staleness-gradients", "bytes", "rates"]


def number(text):
    return float(text.replace("\u202f", "").replace("\u2212", "-"))


def contrast(one, other):
    """WCAG's ratio of two colours' luminances, 1 to 21."""
    def luminance(colour):
        parts = [int(colour.lstrip("#")[i:i + 2], 16) / 255 for i in (0, 2, 4)]
        linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def leaves(value, path=""):
    if not isinstance(value, dict):
        return {path: value}
    return {key: leaf for name, inner in value.items() for key, leaf in leaves(inner, f"{path}.{name}" if path else name).items()}


@unittest.skipIf(browser.missing(), f"not installed: {', '.join(browser.missing())} (scripts/install_deps.sh --browser)")
class PageTest(unittest.TestCase):
    """Has a folder and a browser for all of a class."""

    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(harness.temporary_folder())
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.browser = browser.Browser().__enter__()
        cls.addClassCleanup(cls.browser.__exit__)


class ReportPage(PageTest):
    """Runs of three policies on one page, and runs that something is wrong with."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.config = cls.folder / "simulate.yaml"
        cls.config.write_text(SIMULATION.replace("DATA", str(cls.folder / "data")), encoding="utf-8")
        cls.paceline("data", "synthesize", "--out", cls.folder / "data", "--train", "400", "--test", "100")
        cls.runs = [cls.folder / "runs" / policy for policy in ("bsp", "dtssp", "asp")]
        for run in cls.runs:
            cls.paceline("simulate", cls.config, "--out", run, f"sync.policy={run.name}")
        cls.page = cls.report("three.html", *cls.runs)

    @staticmethod
    def paceline(*arguments):
        done = subprocess.run([str(a) for a in (harness.BIN / "paceline", *arguments)], capture_output=True, text=True,
                              timeout=harness.DEADLINE, check=False)
        if (done.returncode, done.stderr) != (0, ""):
            raise AssertionError(f"paceline {arguments[0]}: {done.returncode} {done.stderr}")
        return done.stdout

    @classmethod
    def report(cls, name, *runs):
        page = cls.folder / name
        cls.paceline("report", "--html", page, *runs)
        return page

    def summary(self, run):
        return json.loads((run / "summary.json").read_text(encoding="utf-8"))

    def title(self, figure):
        return self.browser.evaluate("return document.querySelector(`#${arguments[0]} h3`).textContent", figure)

    def text(self, figure):
        return self.browser.evaluate("return document.getElementById(arguments[0]).innerText", figure)

    def assert_quiet(self, page):
        """No error, no warning, and no request but the one for the page itself."""
        self.assertEqual(self.browser.log(), [])
        asked = [address for address in self.browser.requests() if address != "data:,"]
        self.assertEqual(asked, [pathlib.Path(page).resolve().as_uri()])

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
                said = self.summary(run)
                for phase, of in said["phases"].items():
                    shown[phase] += of["total_seconds"] > 0.05 * said["wall_seconds"] * said["workers"]
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
                                ("accuracy-iterations", r"[^\n]* iterations\nbsp: test \d+\.\d\d % at [\s\S]*asp: training [^\n]* % at ")):
            with self.subTest(figure=figure):
                self.assertRegex(self.browser.evaluate(HOVER, figure), "^" + pattern)
        for chart in self.browser.evaluate(MARKS):
            raw = [label for label in chart["labels"] if re.search(r"\.\d{4}", label)]
            self.assertEqual(raw, [], chart["id"])

    def test_a_run_whose_nodes_could_not_report_shows_what_they_had_said(self):
        failed = self.folder / "failed"
        shutil.copytree(self.runs[0], failed)
        said = self.summary(failed)
        for phase in said["phases"].values():
            phase.update(total_seconds=0.0, count=0, mean_ms=0.0)
        said.update(status="failed", unaccounted_seconds=0.0)
        (failed / "summary.json").write_text(json.dumps(said), encoding="utf-8")
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

    # ---- what it says

    def test_the_numbers_at_the_top_are_those_of_the_summaries(self):
        self.browser.show(self.page)
        cards = self.browser.evaluate("""return [...document.querySelectorAll('.card')].map((card) => Object.fromEntries(
            [...card.querySelectorAll('[data-key]')].map((shown) => [shown.dataset.key, shown.textContent])))""")
        scales = {"test_accuracy": 100, "bytes_pushed": 1e-6, "bytes_pulled": 1e-6, "bytes_shared": 1e-6}
        self.assertEqual(len(cards), len(self.runs))
        for run, card in zip(self.runs, cards):
            said = leaves(self.summary(run))
            self.assertEqual(card.pop("policy"), said["policy"])
            if said["final_threshold"] is None:
                self.assertEqual(card.pop("final_threshold"), "\u221e")
            self.assertGreaterEqual(len(card), 8)
            for key, text in card.items():
                digits = len(text.partition(".")[2])
                self.assertAlmostEqual(number(text), said[key] * scales.get(key, 1), delta=0.501 * 10 ** -digits, msg=key)

    def test_all_of_the_summaries_is_there_to_the_last_digit(self):
        self.browser.show(self.page)
        heading, *rows = self.browser.evaluate(browser.TABLE, "#whole-summaries")
        self.assertEqual(heading, ["key", "bsp", "dtssp", "asp"])
        for place, run in enumerate(self.runs, 1):
            shown = {row[0]: row[place] for row in rows if row[place] != "–"}
            expected = leaves(self.summary(run))
            self.assertEqual(sorted(shown), sorted(expected))
            for key, text in shown.items():
                self.assertEqual(text if isinstance(expected[key], str) else json.loads(text), expected[key], key)

    def test_the_table_behind_the_phases_is_the_summary_for_each_worker(self):
        self.browser.show(self.page)
        heading, *rows = self.browser.evaluate(browser.TABLE, "#phases-runs details")
        for run, row in zip(self.runs, rows):
            summary = self.summary(run)
            self.assertEqual(heading[-3:], ["unaccounted s", "not training s", "all s"])
            for column, text in zip(heading[1:-3], row[1:]):
                total = summary["phases"][column.removesuffix(" s")]["total_seconds"]
                self.assertAlmostEqual(number(text), total / summary["workers"], delta=0.000501, msg=column)
            # A bar is as long as its run, or longer by as much as a worker's own wall is.
            self.assertGreaterEqual(number(row[-1]) + 0.001, summary["wall_seconds"])
            trained = sum(number(text) for text in row[1:-2])
            self.assertAlmostEqual(number(row[-2]), max(summary["wall_seconds"] - trained, 0), delta=0.01)
        self.assertGreater(max(number(row[-2]) for row in rows), 1)  # ASP's fast workers are done long before the slow ones

    def test_the_table_behind_the_bytes_is_the_summaries(self):
        self.browser.show(self.page)
        heading, *rows = self.browser.evaluate(browser.TABLE, "#bytes details")
        self.assertEqual(heading, ["run", "pushed (gradients), MB", "pulled (parameters), MB", "pushed and pulled, MB for each iteration"])
        for run, row in zip(self.runs, rows, strict=True):
            summary = self.summary(run)
            self.assertEqual(row[0], run.name)
            for text, key in zip(row[1:3], ("bytes_pushed", "bytes_pulled"), strict=True):
                self.assertAlmostEqual(number(text), summary[key] * 1e-6, delta=0.000501, msg=key)
            expected = (summary["bytes_pushed"] + summary["bytes_pulled"]) * 1e-6 / summary["iterations"]
            self.assertAlmostEqual(number(row[3]) / expected, 1, delta=1e-5)
            for key in ("bytes_shared", "bytes_pushed_early"):  # of which there is no column
                self.assertEqual(summary[key], 0)

    def test_the_tables_behind_the_phases_of_nodes_and_workers_are_the_files(self):
        self.browser.show(self.page)
        for place, run in enumerate(self.runs):
            with open(run / "phases.csv", encoding="utf-8") as file:
                said = {(row["node"], row["thread"], row["phase"]): row for row in csv.DictReader(file)}
            heading, *rows = self.browser.evaluate(browser.TABLE, f"#phases-nodes-{place} details")
            columns = [name.removesuffix(" s") for name in heading[1:]]
            self.assertEqual((columns[-2:], {*columns[:-1]}), (["unaccounted", "all"], {phase for _, _, phase in said}))
            self.assertEqual([row[0] for row in rows], ["node 0, 2 workers", "node 1, 2 workers"])
            for node, row in enumerate(rows):
                expected = [sum(float(said[str(node), str(thread), phase]["total_seconds"]) for thread in range(2)) / 2
                            for phase in columns[:-1]]
                for text, seconds, phase in zip(row[1:], [*expected, sum(expected)], columns, strict=True):
                    self.assertAlmostEqual(number(text), seconds, delta=0.000501, msg=phase)
            for column, phase in enumerate(columns[:-2], 1):  # four workers, each of them off by half a millisecond at most
                self.assertAlmostEqual(2 * sum(number(row[column]) for row in rows),
                                       self.summary(run)["phases"][phase]["total_seconds"], delta=0.00201, msg=phase)

            heading, *rows = self.browser.evaluate(browser.TABLE, f"#phases-workers-{place} details")
            self.assertEqual(heading[2:], ["count", "total s", "share %", "mean ms", "p50 ms", "p95 ms", "hidden s"])
            self.assertEqual(len(rows), 4 * 9)
            for worker, phase, *numbers in rows:
                of = said[(*worker.split("."), phase)]
                self.assertEqual(numbers[0], of["count"])
                for text, key, scale in zip(numbers[1:], ("total_seconds", "share", "mean_ms", "p50_ms", "p95_ms", "hidden_seconds"),
                                            (1, 100, 1, 1, 1, 1), strict=True):
                    digits = len(text.partition(".")[2])
                    self.assertAlmostEqual(number(text), float(of[key]) * scale, delta=0.501 * 10 ** -digits, msg=(worker, phase, key))

    def test_the_gaps_are_those_of_the_trace(self):
        """Counted again from the decisions: where every worker stands at the end of each stretch of time."""
        self.browser.show(self.page)
        trace = json.loads((self.runs[2] / "trace.json").read_text(encoding="utf-8"))
        # What follows a report is decided at the same instant.
        decisions = sorted((event for event in trace["traceEvents"] if event["ph"] == "i"),
                           key=lambda event: (event["ts"], event["name"] != "report"))
        first_grant = (trace["otherData"]["first_grant_ns"] - trace["otherData"]["origin_ns"]) * 1e-3
        heading, *rows = self.browser.evaluate(browser.TABLE, "#gaps-2 details")
        self.assertEqual((heading, len(rows)), (["until s", "0.0", "0.1", "1.0", "1.1"], 96))
        self.assertEqual(self.browser.evaluate("return getComputedStyle(document.querySelector('#gaps-2 svg path')).shapeRendering"),
                         "crispedges")  # no seam between cells
        seen = set()
        for until, *gaps in rows[:-1]:
            clocks = {}
            for event in decisions:
                args = event["args"]
                if (event["ts"] - first_grant) * 1e-6 > number(until) - 0.0005 or event["name"] not in ("grant", "report", "finish"):
                    continue
                clocks[args["worker"]] = None if event["name"] == "finish" else args["clock"] + (event["name"] == "report")
            near = any(abs((event["ts"] - first_grant) * 1e-6 - number(until)) < 0.001 for event in decisions)
            standing = [clock for clock in clocks.values() if clock is not None]
            if near or not standing:
                continue  # which side of the edge, three decimals do not tell
            expected = [None if clocks.get(w) is None else clocks[w] - min(standing) for w in heading[1:]]
            self.assertEqual([None if gap == "–" else int(gap) for gap in gaps], expected, until)
            seen.update(gap for gap in expected if gap is not None)
        self.assertGreater(len(seen), 3)

    def test_the_lowest_gaps_are_told_from_an_empty_place_in_both_themes(self):
        bands = """return JSON.parse(document.querySelector('#gaps-2 .chart').dataset.colours)
            .concat(getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)
                .map((part) => part.toString(16).padStart(2, '0')).join(''))"""
        for dark in (False, True):
            self.browser.show(self.page, dark=dark)
            *colours, background = self.browser.evaluate(bands)
            self.assertGreater(len(colours), 3)
            self.assertGreater(contrast(colours[0], background), 2.4)
            for colour in colours:
                self.assertGreater(contrast(colour, background), 1.9, (dark, colour))
        names = self.browser.evaluate("return [...document.querySelectorAll('#gaps-2 svg text')].map((text) => text.textContent)")
        self.assertIn("0: the slowest", names)

    def test_the_timeline_has_the_newest_steps(self):
        self.browser.show(self.page)
        trace = json.loads((self.runs[0] / "trace.json").read_text(encoding="utf-8"))
        spans = [event for event in trace["traceEvents"] if event["ph"] == "X"]
        _, *rows = self.browser.evaluate(browser.TABLE, "#timeline-0 details")
        self.assertTrue(1000 < len(rows) <= 4000, len(rows))
        last = max((row for row in rows if row[:1] + row[2:3] == ["1.1", "COMPUTE_GRADS"]), key=lambda row: number(row[1]))
        real = [event for event in spans if event["tid"] == 1001002 and event["name"] == "COMPUTE_GRADS"][-1]
        self.assertEqual(int(number(last[1])), real["args"]["clock"])
        self.assertAlmostEqual(number(last[4]), real["dur"] * 1e-3, delta=0.002)

    def test_the_timeline_has_the_clocks_that_were_asked_for(self):
        page = self.report("clocks.html", "--clocks", "100..104", *self.runs)
        self.browser.show(page)
        trace = json.loads((self.runs[1] / "trace.json").read_text(encoding="utf-8"))
        expected = [event for event in trace["traceEvents"] if event["ph"] == "X" and event["cat"] == "phase"
                    and 100 <= event["args"]["clock"] <= 104]
        _, *rows = self.browser.evaluate(browser.TABLE, "#timeline-1 details")
        self.assertEqual(len(rows), len(expected))
        self.assertEqual({row[1] for row in rows}, {"100", "101", "102", "103", "104"})
        self.assertEqual(self.title("timeline-1"), "Timeline of clocks 100 to 104")
        self.assert_quiet(page)

        page = self.report("all_clocks.html", "--clocks", "0..100000", *self.runs)
        self.browser.show(page)
        _, *rows = self.browser.evaluate(browser.TABLE, "#timeline-0 details")
        self.assertEqual((rows[0][1], len(rows)), ("0", 4000))
        self.assertRegex(self.text("timeline-0"), "room for the first 4\\s000 of their [0-9\\s]+ phases: ask for fewer clocks")

        page = self.report("no_clocks.html", "--clocks", "90000..90001", *self.runs)
        self.browser.show(page)
        self.assertRegex(self.text("timeline-0"), r"has nothing of clocks 90000 to 90001: it has clocks 0 to \d+\.")

    def test_what_only_a_traced_run_has_is_named_once_for_all_others(self):
        untraced = [self.folder / "untraced" / name for name in ("one", "two")]
        for run in untraced:
            shutil.copytree(self.runs[1], run)
            (run / "trace.json").unlink()
        page = self.report("untraced.html", *untraced, self.runs[0])
        self.browser.show(page)
        self.assertIn("run.trace: true records: it is missing of one, two.", self.text("timeline"))
        self.assertEqual(self.browser.evaluate("return document.querySelectorAll('.nothing').length"), 1)
        self.assertLessEqual({"gaps-0", "gaps-1", "gaps-2", "rates"}, {chart["id"] for chart in self.browser.evaluate(MARKS)})
        self.assert_quiet(page)
        page = self.report("one_untraced.html", untraced[0])
        self.browser.show(page)
        self.assertIn("run.trace: true records: this one lacks it.", self.text("timeline"))
        self.assertLessEqual({"gaps-0", "rates"}, {chart["id"] for chart in self.browser.evaluate(MARKS)})
        (untraced[0] / "progress.csv").unlink()  # as an older version's
        page = self.report("older.html", untraced[0])
        self.browser.show(page)
        for figure in ("gaps", "rates-nothing"):
            self.assertIn("drawn from progress.csv, which a run writes from its first second on: this one lacks it.", self.text(figure))

    def test_bytes_per_second_of_whole_clocks_are_no_comb(self):
        """BSP's workers move everything at once: a stretch shorter than a clock would have all or nothing of it."""
        run = self.folder / "short"  # 96 stretches of it are shorter than a clock
        self.paceline("simulate", self.config, "--out", run, "sync.policy=bsp", "train.total_iterations=300")
        self.browser.show(self.report("short.html", run))
        _, *rows = self.browser.evaluate(browser.TABLE, "#rates details")
        begins = [number(row[2]) for row in rows]
        summary = self.summary(run)
        iteration = summary["wall_seconds"] / summary["final_version"]
        self.assertGreater(len(rows), 10)
        self.assertGreater(min(after - before for before, after in zip(begins, begins[1:])), 2.5 * iteration)
        moved = [number(row[-1]) for row in rows]
        self.assertGreater(min(moved), max(moved) / 2.5)

    def test_stragglers_are_named_with_their_scores(self):
        run = self.folder / "slow"
        shutil.copytree(self.runs[0], run)
        summary = self.summary(run)
        summary["stragglers"] = [{"worker": "1.0", "relative": 0.4249, "individual": 0.97}]
        (run / "summary.json").write_text(json.dumps(summary), encoding="utf-8")
        self.browser.show(self.report("slow.html", run))
        self.assertEqual(self.browser.evaluate("return document.querySelector('.card .stragglers').innerText"),
                         "straggler 1.0: 0.42 of the fastest, 0.97 of its own best")

    def test_the_configurations_are_told_apart(self):
        self.browser.show(self.page)
        rows = self.browser.evaluate("""return [...document.querySelectorAll('section')].at(-1).querySelector('table').innerText""")
        self.assertRegex(rows, r"sync\.policy\s+bsp\s+dtssp\s+asp")
        for same in ("cluster.nodes", "run.out"):
            self.assertNotIn(same, rows)
        clipped = """return [...document.querySelectorAll('.wrapped td')].filter((cell) => cell.scrollWidth > cell.clientWidth).length"""
        self.assertEqual(self.browser.evaluate(clipped), 0)
        rows = dict((row[0], row[1:]) for row in self.browser.evaluate(browser.TABLE, "#changed-settings"))
        self.assertEqual(rows["cluster.nodes"][:3], ["2", "2", "2"])

    # ---- what may be wrong with a run

    def test_what_is_missing_is_named_and_the_rest_is_shown(self):
        crashed, empty = self.folder / "crashed", self.folder / "empty"
        shutil.copytree(self.runs[1], crashed)
        (crashed / "summary.json").unlink()
        (crashed / "phases.csv").write_text("node,thread\n", encoding="utf-8")
        empty.mkdir()
        page = self.report("crashed.html", crashed, empty)
        self.browser.show(page)
        self.assert_marks(["accuracy-time", "accuracy-iterations", "loss-time", "loss-iterations", "threshold", "lpr", "staleness-clocks",
                           "staleness-gradients", "gaps-0", "timeline-0", "rates"])
        said = self.browser.evaluate("return [...document.querySelectorAll('.card')].map((card) => card.innerText)")
        self.assertRegex(said[0], r"(?s)crashed unfinished.*no summary.json.*phases.csv:1: header is 'node,thread', expected")
        for name in ("summary.json", "phases.csv", "curve.csv", "staleness.csv", "config.yaml"):
            self.assertIn(name, said[1])
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
        rows = [f"{i * 0.36},{i},{3 + i // 20000},{i % 97 / 10},{1 + 1e-9 * i},{0.5 + 1e-7 * i},,,{4 * i}" for i in range(100_000)]
        rows[54_321] = "19555.56,54321,5,0.1,7.25,0.5,,,217284"
        (run / "curve.csv").write_text("\n".join([(run / "curve.csv").read_text(encoding="utf-8").split("\n")[0], *rows, ""]),
                                       encoding="utf-8")
        page = self.report("long.html", *[run] * 4)
        self.assertLess(page.stat().st_size, 3_000_000)
        self.browser.show(page)
        rows = self.browser.evaluate(browser.TABLE, "#loss-time details")
        self.assertIn(["long", "training", "19555.6", "54321", "217284", "7.25"], [[row[0].split("/")[-1], *row[1:]] for row in rows])
        self.assert_quiet(page)


class CardsOfRuns(PageTest):
    """What the top of the page makes of data that is written here, rather than read from runs."""

    def cards(self, *runs):
        """Of each run its state and what its card says, by name."""
        data = {"phases": ["BATCH"], "defaults": [], "runs": [{"name": f"runs/{i}", "missing": [], **run} for i, run in enumerate(runs)]}
        page = (harness.SOURCE / "web/dist/page.html").read_text(encoding="utf-8")
        (self.folder / "page.html").write_text(page.replace("@PACELINE_DATA@", json.dumps(data).replace("<", "\\u003c")), encoding="utf-8")
        self.browser.show(self.folder / "page.html")
        self.assertEqual(self.browser.log(), [])
        return self.browser.evaluate("""return [...document.querySelectorAll('.card')].map((card) => [
            card.querySelector('.state').textContent, Object.fromEntries([...card.querySelectorAll('dl > div')].map((shown) => [
                shown.querySelector('dt').textContent, shown.querySelector('dd').textContent]))])""")

    def has_whole_summaries(self):
        return self.browser.evaluate("return document.getElementById('whole-summaries') !== null")

    def test_a_run_without_a_summary_shows_what_is_known_of_it(self):
        known = {"status": "stopped", "policy": "dtssp", "nodes": 2, "threads_per_node": 3, "workers": 6, "seconds": 12.5, "version": 1234,
                 "threshold": 4, "test_accuracy": 0.7345}
        self.assertEqual(self.cards({"known": known}), [["stopped", {
            "policy": "dtssp", "nodes × threads": "2 × 3", "workers": "6", "time": "12.500 s", "version": "1\u202f234", "threshold": "4",
            "test accuracy": "73.45 %"}]])
        self.assertFalse(self.has_whole_summaries())

    def test_what_is_not_known_is_left_out(self):
        some = {"status": None, "policy": "<b>asp</b>", "nodes": 2, "seconds": None, "version": 0, "threshold": "inf"}
        nothing = dict.fromkeys(("status", "policy", "nodes", "threads_per_node", "workers", "seconds", "version", "threshold"))
        self.assertEqual(self.cards({"known": some}, {"known": nothing}, {"known": {}}, {}), [
            ["unfinished", {"policy": "<b>asp</b>", "nodes × threads": "2 × –", "version": "0", "threshold": "∞"}],
            ["unfinished", {}], ["unfinished", {}], ["unfinished", {}]])
        self.assertEqual(self.browser.evaluate("return document.querySelectorAll('.card dl, .card b').length"), 1)

    def test_a_summary_says_it_all(self):
        summary = {"status": "ok", "policy": "bsp", "nodes": 1, "threads_per_node": 2, "final_threshold": None}
        (state, said), (other, _) = self.cards({"summary": summary, "known": {"status": "stopped", "policy": "asp"}}, {})
        self.assertEqual((state, said["policy"], said["final threshold"], other), ("ok", "bsp", "∞", "unfinished"))
        self.assertTrue(self.has_whole_summaries())
        heading, *_ = self.browser.evaluate(browser.TABLE, "#whole-summaries")
        self.assertEqual(heading, ["key", "0"])


if __name__ == "__main__":
    harness.main()
