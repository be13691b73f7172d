"""Connections that break while both ends live: a relay resets them in the midst of a run. See harness.py."""

import harness
from breaker import Breaker, free_port
from harness import DaemonTest

ITERATIONS = 480  # 120 versions of four workers


class BrokenConnections(DaemonTest):
    """Two nodes and two shards over tcp, under bsp, those between the two shards, too: the same bits as without."""

    run_of = (f"train.total_iterations={ITERATIONS}", "cluster.lease=20s", "cluster.heartbeat=100ms",
              "sync.policy=bsp")
    iterations = ITERATIONS
    after_bytes = (3_000, 150_000)

    def setUp(self):
        super().setUp()
        self.breakers = []
        self.configure(shards=2)

    def tearDown(self):
        for breaker in self.breakers:
            breaker.close()
        super().tearDown()

    def run_over(self, breaks, *overrides):
        """To the end; connections break that often in all, for each server."""
        def at(*ports):
            return "cluster.endpoints=[" + ",".join(f"tcp://127.0.0.1:{port}" for port in ports) + "]"
        ports = [free_port(), free_port()]
        settings = (*self.run_of, *overrides)
        self.breakers = [Breaker(port, seed, breaks, *self.after_bytes) for seed, port in enumerate(ports)]
        self.breakers.append(Breaker(ports[0], 2, breaks, 1_000, 30_000))  # for shard 1, to the authority
        servers = [self.server(0, *settings, at(*ports)), self.server(1, *settings, at(self.breakers[2].port, ports[1]))]
        nodes = [self.node(i, *settings, at(*(breaker.port for breaker in self.breakers[:2]))) for i in range(2)]
        self.assert_succeed(nodes + servers)
        for breaker in self.breakers:
            breaker.close()
        summary = self.summary()
        self.assertEqual((summary["status"], summary["iterations"], summary["lost_nodes"]), ("ok", self.iterations, 0))
        model = (self.run_dir / "model.bin").read_bytes()
        self.run_dir.rename(self.folder / f"with-{breaks}")
        return summary, model

    def assert_same_bits(self, *overrides):
        calm, model = self.run_over(0, *overrides)
        self.assertNotIn("reconnects", calm)
        summary, broken_model = self.run_over(12, *overrides)
        self.assertEqual(broken_model, model)
        self.assertGreater(sum(b.broken for b in self.breakers), 12)
        self.assertGreater(summary["reconnects"], 12)
        self.assertEqual(summary["malformed"], 0)
        folder = self.folder / "with-12"
        output = (folder / "worker-0.log").read_text(encoding="utf-8")
        self.assertRegex(output, r"the connection to server shard \d \(tcp://.*\) is of no further use: it broke; "
                               r"joining again over another one")
        self.assertRegex(output, r"server shard \d \(tcp://.*\) has welcomed this node over another connection after "
                               r"\d+\.\d{3} s: \d+ gradients? and \d+ pulls? said again")
        output = (folder / "server.log").read_text(encoding="utf-8")
        self.assertRegex(output, r"node \d's connection to shard 0 broke, and it goes on over another one: it says \d "
                               r"gradients? again")
        self.assertGreater(self.breakers[2].broken, 6)
        self.assertRegex(output, r"shard 1's connection to the authority broke, and it goes on over another one: \d+ "
                               r"messages are sent again")
        report = self.paceline("report", folder)
        self.assertEqual((report.returncode, report.stderr), (0, ""))
        self.assertIn(f"connections that broke, and others took their place: {summary['reconnects']}", report.stdout)

    def test_a_run_whose_connections_are_reset_ends_in_the_same_bits(self):
        self.assert_same_bits("cluster.shared_memory=off")

    def test_it_does_with_lent_gradients_and_parameters(self):
        self.after_bytes = (2_000, 20_000)  # the rest is not sent
        self.assert_same_bits("cluster.shared_memory=on")

    def test_it_does_with_error_feedback(self):
        self.assert_same_bits("cluster.gradient_encoding=int8")

    def test_it_does_with_deltas_of_local_steps_and_their_optimizer_s_state_stays(self):
        self.iterations = 2 * ITERATIONS
        self.assert_same_bits("cluster.shared_memory=off", f"train.total_iterations={self.iterations}", "train.local_steps=2",
                              "train.inner_optimizer.kind=adam", "train.inner_optimizer.lr=0.001", "sync.combine=mean",
                              "train.optimizer.kind=sgd", "train.optimizer.lr=1")

    def test_it_does_with_keys(self):
        made = self.paceline("keygen", "--out", self.folder / "keys", "--nodes", 2)
        self.assertEqual((made.returncode, made.stderr), (0, ""))
        self.assert_same_bits(f"security.keys={self.folder}/keys", "cluster.shared_memory=off")


if __name__ == "__main__":
    harness.main()
