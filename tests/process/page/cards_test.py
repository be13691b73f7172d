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
        (state, said), (other, _) = self.cards({"summary": summary, "known": {"status": "stopped", "policy": "asp"}}, {})
        self.assertEqual((state, said["policy"], said["final threshold"], other), ("ok", "bsp", "∞", "unfinished"))
        self.assertTrue(self.has_whole_summaries())
        heading, *_ = self.browser.evaluate(browser.TABLE, "#whole-summaries")
        self.assertEqual(heading, ["key", "0"])


if __name__ == "__main__":
    harness.main()
