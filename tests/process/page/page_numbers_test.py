"""Charts and tables of the page of `paceline report --html` against the run directories. Skipped where there is no Chromium
(scripts/install_deps.sh --browser has it)."""

import csv
import json
import pathlib
import shutil
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import browser
import harness
from page_case import MARKS, ThreePolicies, leaves, number


def contrast(one, other):
    """WCAG's ratio of two colours' luminances, 1 to 21."""
    def luminance(colour):
        parts = [int(colour.lstrip("#")[i:i + 2], 16) / 255 for i in (0, 2, 4)]
        linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


class ReportNumbers(ThreePolicies):
    """What the page says of runs of three policies is what their directories say."""

    def test_the_numbers_at_the_top_are_those_of_the_summaries(self):
        self.browser.show(self.page)
        cards = self.browser.evaluate("""return [...document.querySelectorAll('.card')].map((card) => Object.fromEntries(
            [...card.querySelectorAll('[data-key]')].map((shown) => [shown.dataset.key, shown.textContent])))""")
        scales = {"test_accuracy": 100, "bytes_pushed": 1e-6, "bytes_pulled": 1e-6, "bytes_shared": 1e-6}
        self.assertEqual(len(cards), len(self.runs))
        for run, card in zip(self.runs, cards):
            output = leaves(self.summary(run))
            self.assertEqual(card.pop("policy"), output["policy"])
            if output["final_threshold"] is None:
                self.assertEqual(card.pop("final_threshold"), "\u221e")
            self.assertGreaterEqual(len(card), 8)
            for key, text in card.items():
                digits = len(text.partition(".")[2])
                self.assertAlmostEqual(number(text), output[key] * scales.get(key, 1), delta=0.501 * 10 ** -digits, msg=key)

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
                output = {(row["node"], row["thread"], row["phase"]): row for row in csv.DictReader(file)}
            heading, *rows = self.browser.evaluate(browser.TABLE, f"#phases-nodes-{place} details")
            columns = [name.removesuffix(" s") for name in heading[1:]]
            self.assertEqual((columns[-2:], {*columns[:-1]}), (["unaccounted", "all"], {phase for _, _, phase in output}))
            self.assertEqual([row[0] for row in rows], ["node 0, 2 workers", "node 1, 2 workers"])
            for node, row in enumerate(rows):
                expected = [sum(float(output[str(node), str(thread), phase]["total_seconds"]) for thread in range(2)) / 2
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
                of = output[(*worker.split("."), phase)]
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


if __name__ == "__main__":
    harness.main()
