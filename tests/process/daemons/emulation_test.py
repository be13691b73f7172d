"""A heterogeneous cluster emulated on one machine (docs/CONFIG.md), by the real daemons. See harness.py."""

import csv

import harness
from harness import DaemonTest


class Emulation(DaemonTest):
    """Iterations last as long as they should; where they cannot, the run says so."""

    # Of an iteration that begins while its parameters land, a thread's waking up behind them is in PS_APPLY_GRADS
    # (common/timing/exchange.h: the rest).
    READING_AND_COMPUTING = ("PS_PARAM", "P_CACHE_PARAM", "T_CACHE_PARAM", "BATCH", "COMPUTE_GRADS", "PS_APPLY_GRADS")

    def seconds(self):
        """By node, phase: what phases.csv says of its one worker."""
        with open(self.run_dir / "phases.csv", encoding="utf-8", newline="") as file:
            return {(int(row["node"]), row["phase"]): float(row["total_seconds"]) for row in csv.DictReader(file)}

    def test_an_iteration_lasts_base_step_times_slowdown(self):
        # A machine that stands still for half a second makes a step overrun; then once more.
        if not any(self.run_at_pace() for _ in range(3)):
            self.skipTest("this machine is too busy to emulate steps of 500 ms")

    def run_at_pace(self):
        """Whether every step fitted. What is asserted holds on the slowest machine, since nothing ends early."""
        iterations, fast, slow = 3, 0.5, 1.25
        servers, nodes = self.start_run("cluster.threads_per_node=1", f"train.total_iterations={2 * iterations}",
                                        "sync.policy=ssp", "sync.threshold=3", "emulate.base_step=500ms",
                                        "emulate.slowdown=[1, 2.5]", "--force", "--force")
        ended = [program.end() for program in servers + nodes]
        summary = self.summary()
        fitted = summary["overruns"] == 0
        self.assertEqual(ended, [0 if fitted else 1] * 3, [program.errors() for program in servers + nodes])
        self.assertEqual((summary["status"], summary["iterations"]), ("ok" if fitted else "invalid", 2 * iterations))
        self.assertGreaterEqual(summary["wall_seconds"], iterations * slow)
        seconds = self.seconds()
        for node, lasts in ((0, fast), (1, slow)):
            spent = sum(seconds[node, phase] for phase in self.READING_AND_COMPUTING)
            self.assertGreaterEqual(spent, iterations * lasts, f"node {node}: {seconds}")
        self.assertEqual((seconds[0, "BARRIER"], seconds[1, "BARRIER"]), (0, 0))  # three ahead is allowed
        if fitted:  # each node has its own factor: 2.5 times as long, less what the machine adds to the shorter
            self.assertGreaterEqual(seconds[1, "COMPUTE_GRADS"], 1.6 * seconds[0, "COMPUTE_GRADS"], seconds)
        return fitted

    CLOCKS, STEP, SLOW = 24, 0.1, 3

    def test_balanced_batches_do_not_wait_for_the_slow_node(self):
        # With equal sizes a clock lasts three base steps on any machine.
        if not any(self.balanced_seconds() < self.CLOCKS * self.SLOW * self.STEP for _ in range(3)):
            self.skipTest("this machine is too busy to emulate steps of 100 ms")

    def balanced_seconds(self):
        servers, nodes = self.start_run("cluster.threads_per_node=1", f"train.total_iterations={2 * self.CLOCKS}",
                                        "sync.policy=bsp", "sync.combine=mean", "train.batch_size=32",
                                        "train.batch_balance=speed", "emulate.base_step=100ms",
                                        "sync.lpr.window_clocks=6",
                                        f"emulate.slowdown=[1, {self.SLOW}]", "--force", "--force")
        ended = [program.end() for program in servers + nodes]
        summary = self.summary()
        self.assertIn(summary["status"], ("ok", "invalid"))  # invalid: too many overruns
        self.assertEqual(ended, [0 if summary["status"] == "ok" else 1] * 3,
                         [program.errors() for program in servers + nodes])
        self.assertEqual((summary["iterations"], summary["final_version"]), (2 * self.CLOCKS, self.CLOCKS))
        # Nobody has been measured in the first four clocks; then 48 and 16 samples make 1.5 base steps at best.
        self.assertGreaterEqual(summary["wall_seconds"], (4 * self.SLOW + (self.CLOCKS - 4) * 1.5) * self.STEP)
        self.assert_says_what_it_chose(summary["batch_sizes"])
        return summary["wall_seconds"]

    def assert_says_what_it_chose(self, sizes):
        fast, slow = sizes["last"]
        self.assertGreater(fast, slow)
        self.assertEqual(fast + slow, 64)
        least, most = sizes["smallest"][0], sizes["largest"][0]
        self.assertTrue(least <= 32 < most, sizes)
        log = (self.run_dir / "server.log").read_text(encoding="utf-8").splitlines()
        said = [line for line in log if "mini-batches by speed" in line]
        windows = [line for line in log if " closed at version " in line]
        self.assertTrue(1 <= len(said) <= len(windows) + 1, said)
        self.assertTrue(said[-1].endswith(f"as granted last: node 0: {fast}, node 1: {slow}"), said)
        report = self.paceline("report", self.run_dir).stdout
        self.assertIn(f"mini-batches of node 0: {fast} at last, {least} to {most} in the run", report)

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
