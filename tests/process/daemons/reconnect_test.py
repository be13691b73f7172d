"""Servers die, and others go on with the run: the nodes live on, or are started anew. See harness.py."""

import signal

import harness
from calm_runs import LEASE, SAVED_ITERATIONS, CalmRuns

WAITS = r"; waiting up to 60 s for servers that go on with the run \(cluster\.reconnect_timeout\)"


class Reconnect(CalmRuns):
    """The same run as one that is never killed: the same iterations, the same bits."""

    iterations = SAVED_ITERATIONS
    run_of = (f"train.total_iterations={SAVED_ITERATIONS}", f"cluster.lease={LEASE:g}s", "cluster.reconnect_timeout=60s",
              "checkpoint.every_clocks=20")

    def silent(self, shard):
        return rf"server shard {shard} \({self.endpoints[shard]}\) silent for \d+\.\d s"

    def train_until_saved(self):
        servers, nodes = self.start_training(*self.run_of)
        self.wait_for_log("server.log", "is written: ")
        return servers, nodes

    def kill(self, *programs):
        for program in programs:
            program.send(signal.SIGKILL)
        for program in programs:
            self.assertEqual(program.end(), -9)

    def resumed(self):
        return [self.server(k, *self.run_of, "--resume") for k in range(self.shards)]

    def assert_as_if_nothing_had_happened(self, servers, model):
        self.assert_succeed(servers)
        summary = self.summary()
        self.assertEqual((summary["status"], summary["iterations"], summary["lost_nodes"]), ("ok", self.iterations, 0))
        self.assertEqual((self.run_dir / "model.bin").read_bytes(), model)
        report = self.paceline("report", self.run_dir)
        self.assertEqual((report.returncode, report.stderr), (0, ""))

    def test_nodes_outlive_their_server(self):
        model = self.calm_model(*self.run_of)
        servers, nodes = self.train_until_saved()
        self.kill(*servers)
        for i, node in enumerate(nodes):
            node.wait_for_line(f"^paceline-worker {i}: {self.silent(0)}{WAITS}$")
        servers = self.resumed()
        for node in nodes:
            self.assertEqual(node.end(), 0, node.errors())
            self.assertEqual(len(node.errors()), 1, node.errors())
        self.assert_as_if_nothing_had_happened(servers, model)
        for i in range(2):
            log = (self.run_dir / f"worker-{i}.log").read_text(encoding="utf-8")
            self.assertIn("generation 2", log)
            # With the server that was killed, and with that which went on: what was lent was lost with the first.
            self.assertEqual(log.count(f"node {i} shares memory with server shard 0"), 2, log)

    def test_an_inner_optimizer_of_a_node_that_outlives_its_server_goes_on_from_the_checkpoint(self):
        rounds = ("train.local_steps=2", "train.inner_optimizer.kind=momentum", "train.inner_optimizer.lr=0.01",
                  "sync.combine=mean", "train.optimizer.kind=sgd", "train.optimizer.lr=1")
        self.run_of = (*self.run_of, *rounds)
        self.assert_nodes_outlive_their_server()

    def assert_nodes_outlive_their_server(self):
        model = self.calm_model(*self.run_of)
        servers, nodes = self.train_until_saved()
        self.kill(*servers)
        servers = self.resumed()
        self.assert_succeed(nodes)
        self.assert_as_if_nothing_had_happened(servers, model)

    def test_nodes_outlive_a_shard_that_is_killed(self):
        self.configure(shards=2)
        model = self.calm_model(*self.run_of)
        servers, nodes = self.train_until_saved()
        self.kill(servers[1])
        lost = rf"server shard 1 \({self.endpoints[1]}\) lost: its connection broke"
        for i, node in enumerate(nodes):
            node.wait_for_line(f"^paceline-worker {i}: .*{lost}.*{WAITS}$")
        self.assertEqual(servers[0].end(), 1)
        servers = self.resumed()
        self.assert_succeed(nodes)
        self.assert_as_if_nothing_had_happened(servers, model)

    def test_nodes_outlive_an_authority_that_is_killed_beside_a_shard(self):
        self.configure(shards=2)
        model = self.calm_model(*self.run_of)
        servers, nodes = self.train_until_saved()
        self.kill(servers[0])
        for i, node in enumerate(nodes):
            node.wait_for_line(f"^paceline-worker {i}: {self.silent(0)}{WAITS}$")
        self.assertEqual(servers[1].end(), 1)  # which had refused them until then
        servers = self.resumed()
        self.assert_succeed(nodes)
        self.assert_as_if_nothing_had_happened(servers, model)

    def test_nodes_outlive_a_server_that_asks_for_keys(self):
        self.assertEqual(self.paceline("keygen", "--out", self.folder / "keys", "--nodes", 2).returncode, 0)
        self.run_of = (*self.run_of, f"security.keys={self.folder}/keys")
        model = self.calm_model(*self.run_of)
        servers, nodes = self.train_until_saved()
        self.kill(*servers)
        for node in nodes:
            node.wait_for_line(WAITS)
        servers = self.resumed()
        self.assert_succeed(nodes)
        self.assert_as_if_nothing_had_happened(servers, model)

    def test_a_killed_node_is_started_anew_beside_one_that_lives(self):
        model = self.calm_model(*self.run_of)
        servers, nodes = self.train_until_saved()
        self.kill(*servers, nodes[1])
        servers = self.resumed()
        nodes[1] = self.node(1, *self.run_of, "--resume")
        self.assert_succeed(nodes)
        self.assert_as_if_nothing_had_happened(servers, model)
        log = (self.run_dir / "worker-1.log").read_text(encoding="utf-8")
        self.assertEqual(log.count("node 1 joined"), 2, log)

    def test_nodes_that_wait_do_not_disturb_a_run_that_is_begun_in_the_same_place(self):
        servers, nodes = self.train_until_saved()
        self.kill(*servers)
        anew = (*self.run_of, f"run.out={self.folder}/anew")
        server = self.server(0, *anew)
        for i, node in enumerate(nodes):
            self.assertEqual(node.end(), 1)
            self.assertRegex(node.errors()[-1], f"^paceline-worker {i}: server shard 0 .*: refuses us: node {i}: it has "
                             "been in generation 1 of the run, expected one before 1, which shard 0 is in; before: ")
        self.assert_succeed((self.node(0, *anew), self.node(1, *anew), server))

    def test_a_node_that_waits_for_its_servers_is_stopped_by_a_signal(self):
        self.configure(shards=2)
        self.run_of = (*self.run_of, "cluster.reconnect_timeout=1h", "train.total_iterations=100000000")
        servers, nodes = self.train_until_saved()
        self.kill(servers[1])  # its connection breaks; the authority's would tell nothing but its silence
        for i, node in enumerate(nodes):
            node.wait_for_line("waiting up to 3600 s")
            node.send(signal.SIGTERM)
            self.assert_ends(node, 1, rf"paceline-worker {i}: .*server shard 1 \({self.endpoints[1]}\) lost: its connection broke; "
                             "waiting up to 3600 s for servers .*", f"paceline-worker {i}: stopped by a signal")
        self.assertEqual(servers[0].end(), 1)


if __name__ == "__main__":
    harness.main()
