"""docs/grafana-dashboard.json draws the metrics that docs/LIVE.md says it draws: all of its tables but those that it names as not drawn.
That the program has these names, and no others, http_answers_test.cc looks at. Grafana itself is not needed."""

import itertools
import json
import pathlib
import re
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "daemons"))
import harness


def names_in(text):
    return set(re.findall(r"\bpaceline_\w+", text))


class Dashboard(unittest.TestCase):
    """The dashboard, and what is said of it."""

    @classmethod
    def setUpClass(cls):
        docs = (harness.SOURCE / "docs/LIVE.md").read_text(encoding="utf-8")
        cls.dashboard = json.loads((harness.SOURCE / "docs/grafana-dashboard.json").read_text(encoding="utf-8"))
        cls.documented = names_in("\n".join(line.split("|")[1] for line in docs.splitlines() if line.startswith("| `paceline_")))
        cls.not_drawn = names_in(re.search(r"Not drawn are (.*?)\.\n", docs, re.DOTALL).group(1))

    def expressions(self, panel):
        return [target["expr"] for target in panel["targets"]]

    def test_every_metric_is_drawn_but_those_that_the_docs_name(self):
        self.assertGreater(len(self.documented), 30)
        self.assertLessEqual(self.not_drawn, self.documented)
        self.assertEqual(names_in(json.dumps(self.dashboard)), self.documented - self.not_drawn)
        self.assertNotIn("paceline_worker_phase_seconds_total", self.not_drawn)

    def test_where_the_time_goes_is_stacked_by_phase(self):
        (panel,) = (panel for panel in self.dashboard["panels"] if panel["title"].startswith("Where the time goes"))
        self.assertEqual(self.expressions(panel),
                         ['sum by (phase) (rate(paceline_worker_phase_seconds_total{instance=~"$instance"}[1m]))'])
        self.assertEqual(panel["fieldConfig"]["defaults"]["custom"]["stacking"]["mode"], "normal")

    def test_every_panel_has_a_unit_a_place_and_the_server_that_was_chosen(self):
        panels = self.dashboard["panels"]
        self.assertEqual(len({panel["id"] for panel in panels}), len(panels))
        for panel in panels:
            self.assertTrue(panel["fieldConfig"]["defaults"]["unit"], panel["title"])
            for expression in self.expressions(panel):
                self.assertIn('{instance=~"$instance"}', expression)
                rated = "_total{" in expression and not expression.startswith("paceline_nodes_lost_total")  # how many, not how fast
                self.assertEqual("rate(" in expression, rated, expression)
        for one, other in itertools.combinations([panel["gridPos"] for panel in panels], 2):
            beside = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
            below = one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]
            self.assertTrue(beside or below, (one, other))


if __name__ == "__main__":
    harness.main()
