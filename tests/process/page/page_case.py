"""What the tests of the page have in common: a browser, runs, and how a number reads on the page."""

import json
import pathlib
import shutil
import subprocess
import unittest

import browser
import harness

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


def number(text):
    return float(text.replace("\u202f", "").replace("\u2212", "-"))


def leaves(value, path=""):
    if not isinstance(value, dict):
        return {path: value}
    return {key: leaf for name, inner in value.items() for key, leaf in leaves(inner, f"{path}.{name}" if path else name).items()}


@unittest.skipIf(browser.missing(), f"not installed: {', '.join(browser.missing())} (scripts/install_deps.sh --browser)")
class PageTest(unittest.TestCase):
    """Has a folder and a browser for all of a class, and what makes runs and pages."""

    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(harness.temporary_folder())
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.browser = browser.Browser().__enter__()
        cls.addClassCleanup(cls.browser.__exit__)

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

    def assert_quiet(self, page):
        """No error, no warning, and no request but the one for the page itself."""
        self.assertEqual(self.browser.log(), [])
        asked = [address for address in self.browser.requests() if address != "data:,"]
        self.assertEqual(asked, [pathlib.Path(page).resolve().as_uri()])


class ThreePolicies(PageTest):
    """Has simulated runs of three policies, and their page."""

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

    def title(self, figure):
        return self.browser.evaluate("return document.querySelector(`#${arguments[0]} h3`).textContent", figure)

    def text(self, figure):
        return self.browser.evaluate("return document.getElementById(arguments[0]).innerText", figure)
