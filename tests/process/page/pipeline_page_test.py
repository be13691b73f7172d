"""What the page of `paceline report --html` shows of a pipeline: what stages did, and a step of stages and micro-batches, in both
themes, on a screen and on a phone, however many micro-batches. Skipped where there is no Chromium."""

import json
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import browser
import harness
from page_case import MARKS, PageTest, number

SIMULATION = """\
run: {seed: 7, trace: true}
cluster: {nodes: 8, threads_per_node: 1}
sync: {policy: bsp}
train: {model: layers, layers: [LAYERS{kind: global_average_pool}, {kind: dense, out: 10}], batch_size: 16, total_iterations: 80}
pipeline: {stages: 4, micro_batches: 8, schedule: 1f1b}
simulate: {compute: {distribution: lognormal, mean: 100ms, cv: 0.1}}
""".replace("LAYERS", 6 * "{kind: conv, out: 3, kernel: 3}, ")
STAGES = 4
# Of a chart: each text in its plot with its box, [text, left, top, right, bottom].
PLOT_TEXTS = """
  const chart = document.querySelector(`#${arguments[0]} .chart`);
  const top = chart.getBoundingClientRect().top + Number(chart.dataset.plot);
  return [...chart.querySelectorAll('svg text')].map((text) => [text.textContent, text.getBoundingClientRect()])
      .filter(([, box]) => box.top >= top).map(([text, box]) => [text, box.left, box.top, box.right, box.bottom]);"""


def overlap(one, other):
    return one[1] < other[3] and other[1] < one[3] and one[2] < other[4] and other[2] < one[4]


class PipelinePage(PageTest):
    """One run of few micro-batches, one of many, one without a trace, and one of stages with chunks."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        config = cls.folder / "simulate.yaml"
        config.write_text(SIMULATION, encoding="utf-8")
        cls.few, cls.many, cls.untraced = (cls.folder / name for name in ("few", "many", "untraced"))
        cls.chunked = cls.folder / "chunked"
        cls.paceline("simulate", config, "--out", cls.few)
        cls.paceline("simulate", config, "--out", cls.many, "pipeline.micro_batches=64", "pipeline.rematerialize=on",
                     "pipeline.schedule=gpipe")
        cls.paceline("simulate", config, "--out", cls.untraced, "run.trace=false")
        cls.paceline("simulate", config, "--out", cls.chunked, "pipeline.schedule=interleaved", "pipeline.stages=2")
        cls.page = cls.report("pipeline.html", cls.few, cls.many, cls.untraced, cls.chunked)

    def test_stages_and_a_step_are_drawn_in_both_themes_on_a_screen_and_on_a_phone(self):
        for width, dark in ((1100, False), (1100, True), (390, False), (390, True)):
            with self.subTest(width=width, dark=dark):
                self.browser.show(self.page, width, dark)
                charts = {chart["id"]: chart for chart in self.browser.evaluate(MARKS)}
                for figure, series in (("pipeline-0", 2), ("pipeline-1", 3), ("stages-0", 3), ("stages-2", 3)):
                    self.assertEqual(len(charts[figure]["series"]), series)
                    self.assertEqual(sorted(charts[figure]["filled"]), sorted(charts[figure]["series"]), figure)
                forward, backward = (charts["pipeline-0"]["filled"][colour] for colour in charts["pipeline-0"]["series"])
                self.assertEqual((forward, backward), (8 * STAGES, 8 * STAGES))
                for figure in ("pipeline-0", "pipeline-1", "stages-0"):
                    texts = self.browser.evaluate(PLOT_TEXTS, figure)
                    self.assertTrue(texts)
                    for i, one in enumerate(texts):
                        self.assertFalse([other for other in texts[:i] if overlap(one, other)], (figure, one))
                self.assertEqual(self.browser.evaluate("return document.documentElement.scrollWidth - document.documentElement.clientWidth"), 0)
                self.assert_quiet(self.page)

    def test_a_pass_has_its_micro_batch_where_it_fits(self):
        self.browser.show(self.page)
        numbers = [text for text, *_ in self.browser.evaluate(PLOT_TEXTS, "pipeline-0") if re.fullmatch("[0-7]", text)]
        self.assertEqual(sorted(numbers), sorted("01234567" * 2 * STAGES))
        many = [text for text, *_ in self.browser.evaluate(PLOT_TEXTS, "pipeline-1")]
        self.assertLess(len(many), 20)

    def test_the_step_is_one_of_the_trace_and_the_stages_are_those_of_the_summary(self):
        self.browser.show(self.page)
        output = self.browser.evaluate("return document.querySelector('#pipeline-0 figcaption').textContent")
        clock = int(re.search(r"step of clock (\d+), the median of 10 ", output).group(1))
        self.assertIn("(K − 1) / (M + K − 1) = 27.27\u00a0%", output)
        _, *rows = self.browser.evaluate(browser.TABLE, "#pipeline-0 details")
        events = json.loads((self.few / "trace.json").read_text(encoding="utf-8"))["traceEvents"]
        passes = [event for event in events if event.get("cat") == "stage" and event["args"]["clock"] == clock
                  and event["pid"] < 1000 + STAGES]
        begin = min(event["ts"] for event in passes)
        expected = sorted((str(event["pid"] - 1000), event["name"], (event["ts"] - begin) / 1e3, event["dur"] / 1e3) for event in passes)
        self.assertEqual(len(rows), 2 * 8 * STAGES)
        for row, (stage, name, start, length) in zip(sorted(rows, key=lambda row: (row[0], row[1])), expected, strict=True):
            self.assertEqual(row[:2], [stage, name])
            self.assertAlmostEqual(number(row[2]), start, delta=0.002)
            self.assertAlmostEqual(number(row[3]), length, delta=0.002)
        of = self.summary(self.few)["pipeline"]
        output = self.browser.evaluate("return document.querySelector('#stages-0 figcaption').textContent")
        self.assertIn(f"bubble {100 * of['bubble_share']:.2f}\u00a0%, (K − 1) / (M + K − 1) = 27.27\u00a0%", output)
        _, *rows = self.browser.evaluate(browser.TABLE, "#stages-0 details")
        for stage, row in enumerate(rows):
            self.assertEqual([number(text) for text in row[1:3]], [of["layers"][stage], of["parameters"][stage]])
            for text, key in zip(row[3:6], ("busy_seconds", "idle_for_previous_seconds", "idle_for_next_seconds"), strict=True):
                self.assertAlmostEqual(number(text), of[key][stage], delta=0.001)
            self.assertEqual(number(row[6]), of["peak_activation_bytes"][stage])

    def test_of_several_chunks_a_pass_says_which_and_a_stage_has_all_of_them(self):
        self.browser.show(self.page)
        for figure in ("pipeline-3", "stages-3"):
            output = self.browser.evaluate(f"return document.querySelector('#{figure} figcaption').textContent")
            self.assertIn("(K − 1) / (2 M + K − 1) = 5.88\u00a0%", output)
        _, *rows = self.browser.evaluate(browser.TABLE, "#pipeline-3 details")
        expected = {(str(stage), f"{letter}{m}{chunk}") for stage in range(2) for letter in "FB" for m in range(8) for chunk in ("", ".1")}
        self.assertEqual({tuple(row[:2]) for row in rows}, expected)
        self.assertIn("7.1", [text for text, *_ in self.browser.evaluate(PLOT_TEXTS, "pipeline-3")])
        of = self.summary(self.chunked)["pipeline"]
        _, *rows = self.browser.evaluate(browser.TABLE, "#stages-3 details")
        for stage, row in enumerate(rows):
            self.assertEqual([number(text) for text in row[1:3]], [sum(of[key][stage::2]) for key in ("layers", "parameters")])

    def test_of_a_run_without_a_trace_it_is_said_what_a_step_needs(self):
        self.browser.show(self.page)
        self.assertRegex(self.browser.evaluate("return document.querySelector('#pipeline p').textContent"),
                         "drawn from trace.json, which run.trace: true records: it is missing of untraced")


if __name__ == "__main__":
    harness.main()
