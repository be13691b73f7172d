"""The cards at the top of the page of `paceline report --html`. Skipped where there is no Chromium (scripts/install_deps.sh
--browser has it)."""

import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import browser
import harness
from page_case import PageTest


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
        (state, output), (other, _) = self.cards({"summary": summary, "known": {"status": "stopped", "policy": "asp"}}, {})
        self.assertEqual((state, output["policy"], output["final threshold"], other), ("ok", "bsp", "∞", "unfinished"))
        self.assertTrue(self.has_whole_summaries())
        heading, *_ = self.browser.evaluate(browser.TABLE, "#whole-summaries")
        self.assertEqual(heading, ["key", "0"])

    def test_who_was_lost_and_came_back_is_said(self):
        self.cards({"summary": {"status": "ok", "lost": ["node 1: it was killed"], "returned": ["node 1 at version 7"]}})
        lines = self.browser.evaluate("return [...document.querySelectorAll('.card .caveats li')].map((line) => line.textContent)")
        self.assertEqual(lines, ["lost node 1: it was killed", "came back: node 1 at version 7"])

    def test_an_all_reduce_says_what_it_sent_how_fast_and_by_which_algorithms(self):
        algorithms = ["up to 64 floats: ring 0.91 ms, tree 1.1 ms: <b>ring</b>", "all: torus"]
        summary = {"status": "ok", "policy": "bsp", "bytes_reduced": 81234567, "bus_bytes_per_second": 2.5e9, "algorithms": algorithms}
        (_, output), (_, served) = self.cards({"summary": summary}, {"summary": {"status": "ok", "policy": "bsp"}})
        self.assertEqual((output["reduced, between nodes"], output["bus bandwidth"]), ("81.235 MB", "2\u202f500.000 MB / s"))
        self.assertNotIn("bus bandwidth", served)
        lines = self.browser.evaluate("return [...document.querySelectorAll('.card .sums li')].map((line) => line.textContent)")
        self.assertEqual(lines, [f"summed, {line}" for line in algorithms])

    def test_a_run_of_local_steps_says_what_its_rounds_were_and_of_how_many_samples(self):
        summary = {"status": "ok", "policy": "bsp", "iterations": 2000, "rounds": 200, "max_clock_gap": 1}
        rounds = {"mini_batches": 10, "differ": False, "computed": None}
        timed = [["train.local_steps", "10"], ["train.local_time", "20ms"]]
        nodes = [[node, "224", "96 to 240"] for node in range(10)]
        cards = [card for _, card in self.cards(
            {"summary": summary, "rounds": rounds}, {"summary": summary, "settings": timed, "rounds": {**rounds, "computed": 1234}},
            {"summary": summary, "rounds": {**rounds, "differ": True}, "samples": {"of": 1200, "nodes": nodes}}, {"summary": summary})]
        self.assertEqual([[card.get(name) for name in ("rounds", "local steps", "mini-batches computed", "largest clock gap")] for card in cards], [
            ["200", "10", None, "1 rounds"], ["200", "10 at most, in 20ms", "1\u202f234", "1 rounds"],
            ["200", "10 on average", None, "1 rounds"], [None, None, None, "1 iterations"]])
        output = self.browser.evaluate("return [...document.querySelectorAll('.card .samples li')].map((line) => line.textContent)")
        self.assertEqual(output[0], "node 0: 224 samples in a round at last, 96 to 240 in the run")
        self.assertEqual((len(output), output[-1]), (9, "and of 1\u202f192 more nodes"))


if __name__ == "__main__":
    harness.main()
