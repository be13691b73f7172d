"""A heterogeneous cluster emulated on one machine (docs/CONFIG.md), by the real daemons. See harness.py."""

import harness
from harness import DaemonTest


class Emulation(DaemonTest):
    """Where iterations cannot last as long as they should, the run says so."""

    def test_a_run_whose_steps_do_not_fit_is_invalid_and_says_so(self):
        why = r"200 of 200 emulated steps took longer than emulate\.base_step allows; raise it, or use fewer workers"
        servers, nodes = self.start_run("train.total_iterations=200", "emulate.base_step=1us")
        self.assert_ends(servers[0], 1, f"paceline-server: the run is invalid: {why}")
        for i, node in enumerate(nodes):
            self.assert_ends(node, 1, f"paceline-worker {i}: {why}")
        summary = self.summary()
        self.assertEqual((summary["status"], summary["overruns"], summary["iterations"]), ("invalid", 200, 200))
        self.assertRegex(summary["reason"], f"^{why}$")
        report = self.paceline("report", self.run_dir)
        self.assertIn(f"{self.run_dir}: invalid", report.stdout)
        self.assertIn("overruns 200", report.stdout)


if __name__ == "__main__":
    harness.main()
