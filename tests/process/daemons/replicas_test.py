"""Two servers of each shard, and what happens to the run when one of them is killed, stopped or cut off: nothing. See
replicated.py."""

import json
import os
import pathlib
import signal
import sys

import etcd
import flood
import harness
from calm_runs import ITERATIONS
from replicated import ReplicatedRun


@etcd.needs_etcd
class Replicas(ReplicatedRun):
    """One of the two is lost, or etcd is."""

    def test_the_one_that_serves_is_killed(self):
        model, servers, nodes = self.start_compared()
        self.kill(servers[0][0])
        servers[0][1].wait_for_line("is served by this replica from here on, term 2")
        self.assert_as_if_nothing_had_happened(nodes, servers[0][1:], model, self.second())

    def test_one_that_stood_still_while_another_began_to_serve_ends(self):
        model, servers, nodes = self.start_compared()
        servers[0][0].send(signal.SIGSTOP)
        servers[0][1].wait_for_line("is served by this replica from here on, term 2")
        servers[0][0].send(signal.SIGCONT)
        self.assertEqual(servers[0][0].end(), 1)
        self.assertRegex(servers[0][0].errors()[-1], "is not served by this replica any more")
        self.assert_as_if_nothing_had_happened(nodes, servers[0][1:], model, self.second())

    def start_with_a_second_disk_that_takes_no_model(self):
        """Servers and nodes; the second server's disk takes no checkpoints either. The test removes nothing of that."""
        servers = [self.server(0, "--replica", r, *self.of_replicas) for r in range(2)]
        self.wait_for_log("server.log", "shard 0 has a follower")
        (self.second() / "model.bin").mkdir()
        (self.second() / "checkpoint").write_text("no folder", encoding="utf-8")
        return servers, [self.node(i, *self.of_replicas) for i in range(2)]

    def test_what_a_follower_cannot_write_it_says_and_the_run_is_none_the_worse(self):
        self.of_replicas.append("checkpoint.every_clocks=40")
        model = self.calm_model(*self.of_replicas)
        servers, nodes = self.start_with_a_second_disk_that_takes_no_model()
        self.assert_as_if_nothing_had_happened(nodes, servers, model)
        output = "\n".join(servers[1].errors())
        self.assertRegex(output, r"the checkpoint of version \d+ is not on this replica's disk: ")
        self.assertRegex(output, r"not on this replica's disk, though it is on the other one's: the checkpoint of version \d+ ")
        self.assertRegex(output, r"what the run is for is not whole on this replica's disk: .*model\.bin")

    def test_a_run_whose_model_is_not_on_the_disk_of_the_one_that_serves_is_not_ok(self):
        self.of_replicas.append("run.trace=true")
        servers, nodes = self.start_with_a_second_disk_that_takes_no_model()
        os.mkfifo(self.run_dir / "trace-node-9.json")  # for which the first one waits, at the end
        servers[1].wait_for_line(r"what the run is for is not whole on this replica's disk: .*model\.bin")
        self.kill(servers[0])
        for program in [servers[1], *nodes]:
            self.assertEqual(program.end(), 1, program.errors())
        self.assertRegex("\n".join(servers[1].errors()), r"the run failed: .*model\.bin")
        summary = json.loads((self.second() / "summary.json").read_text(encoding="utf-8"))
        self.assertEqual(summary["status"], "failed")
        self.assertRegex(summary["reason"], r"model\.bin")

    def test_who_asks_without_end_while_the_follower_stands_still_is_lost(self):
        """What it would be answered waits for the follower, which hears of no such question: that is bounded, too."""
        self.configure_replicas(1, 1000 * ITERATIONS)
        self.of_replicas += ["cluster.nodes={min: 2, max: 3}", "cluster.lease=60s", "emulate.base_step=5ms"]
        self.endpoints = [f"ipc://{self.folder}/0.0"]
        join = flood.recorded_join(self, *self.of_replicas)
        servers = [self.server(0, "--replica", r, *self.of_replicas) for r in range(2)]
        for i in range(2):
            self.node(i, *self.of_replicas)
        servers[0].wait_for_line(r"^version [1-9]")  # one is behind: it is not kept, and who asks for it is told so
        flooder = self.start(sys.executable, pathlib.Path(flood.__file__), self.endpoints[0], "exact", "reads",
                             flood.join_as(join, 2).hex())
        flooder.wait_for_line("ready")
        servers[1].send(signal.SIGSTOP)
        flooder.send(signal.SIGUSR1)
        servers[0].wait_for_line(r"node 2 lost before it took part: it does not read what it is sent: \d+ messages wait for it")
        self.assertNotIn("has lost its follower", (self.run_dir / "server.log").read_text(encoding="utf-8"))

    def test_etcd_stands_still_for_a_while(self):
        self.configure_replicas(1, 20 * ITERATIONS)  # longer than a lease
        model, servers, nodes = self.start_compared()
        self.etcd.send(signal.SIGSTOP)
        servers[0][0].wait_for_line("nobody is told anything by shard 0 until etcd answers: ")
        self.etcd.send(signal.SIGCONT)
        # Whether its leases have ended meanwhile or not, somebody serves.
        serves = [server.end() == 0 for server in servers[0]].index(True)
        self.assert_as_if_nothing_had_happened(nodes, [servers[0][serves]], model, [self.run_dir, self.second()][serves])

    def test_one_that_is_left_alone_goes_on_though_its_lease_has_ended(self):
        self.configure_replicas(1, 4 * ITERATIONS)
        model, servers, nodes = self.start_compared()
        self.kill(servers[0][1])
        servers[0][0].wait_for_line("it goes on alone")
        self.assertGreaterEqual(etcd.end_all_leases(self.etcd_endpoint), 1)
        self.assert_as_if_nothing_had_happened(nodes, servers[0][:1], model)

    def test_the_authority_is_killed_when_training_is_over(self):
        self.configure_replicas(2, 2 * ITERATIONS)
        self.of_replicas.append("run.trace=true")
        model, servers, nodes = self.start_compared()
        os.mkfifo(self.run_dir / "trace-node-9.json")  # for which it waits, at the end
        self.wait_for_log("server.log", "training is over at version")
        self.kill(servers[0][0])
        self.assert_as_if_nothing_had_happened(nodes, [servers[0][1], servers[1][0], servers[1][1]], model,
                                               self.second())

    def test_both_shards_are_killed_at_once_in_a_run_with_keys(self):
        self.configure_replicas(2)
        self.assertEqual(self.paceline("keygen", "--out", self.folder / "keys", "--nodes", 2).returncode, 0)
        self.of_replicas.append(f"security.keys={self.folder}/keys")
        model, servers, nodes = self.start_compared()
        for shard in range(2):
            servers[shard][0].send(signal.SIGKILL)
        self.assert_as_if_nothing_had_happened(nodes, [servers[0][1], servers[1][1]], model, self.second())

    def test_a_node_that_comes_later_finds_the_one_that_serves_by_then(self):
        self.configure_replicas(1, 10 * ITERATIONS)
        self.of_replicas.append("cluster.nodes={min: 1, max: 2}")
        servers = [self.server(0, "--replica", r, *self.of_replicas) for r in range(2)]
        nodes = [self.node(0, *self.of_replicas)]
        servers[0].wait_for_line(harness.PROGRESS.pattern)
        self.kill(servers[0])
        servers[1].wait_for_line("is served by this replica from here on, term 2")
        nodes.append(self.node(1, *self.of_replicas))
        self.assert_succeed([*nodes, servers[1]])
        summary = json.loads((self.second() / "summary.json").read_text(encoding="utf-8"))
        self.assertEqual((summary["status"], summary["iterations"], summary["lost_nodes"]), ("ok", self.iterations, 0))
        self.assertEqual(len(summary["late"]), 1, summary["late"])

    def test_without_a_second_replica_the_start_fails_and_says_so(self):
        self.of_replicas.append("cluster.start_timeout=8s")
        server = self.server(0, *self.of_replicas)
        node = self.node(0, *self.of_replicas)
        self.assertEqual(node.end(), 1)
        self.assertEqual(server.end(), 1)
        self.assertRegex(server.errors()[-1], "node 0, node 1 have not joined within 8 s; refused: "
                         rf"shard 0 waits for its other replica \(ipc://{self.folder}/0\.1\)")

    def test_without_an_etcd_the_start_fails_and_says_so(self):
        self.of_replicas.append("cluster.start_timeout=4s")
        self.etcd.send(signal.SIGKILL)
        servers = [self.server(0, "--replica", r, *self.of_replicas) for r in range(2)]
        node = self.node(0, *self.of_replicas)
        for server in servers:
            self.assertEqual(server.end(), 1)
        self.assertRegex(servers[0].errors()[-1], "refused: shard 0 waits for etcd's word that this replica serves: ")
        self.assertEqual(node.end(), 1)

    def test_another_run_of_a_configuration_is_not_begun_over_one_that_can_be_gone_on_with(self):
        servers, nodes = self.start_replicas()
        for program in [*servers[0], *nodes]:
            self.kill(program)
        self.of_replicas.append(f"run.out={self.folder / 'other'}")
        server = self.server(0, *self.of_replicas)
        self.assertEqual(server.end(), 1)
        self.assertRegex(server.errors()[-1], "another run of this configuration has not ended, or can be gone on with")
        # Under other keys it is nobody's business.
        other = self.server(0, *self.of_replicas, f"run.out={self.folder / 'more'}", "cluster.etcd_prefix=other")
        self.wait_for_lines(self.folder / "more", "shard 0 is served by this replica, term 1")
        other.send(signal.SIGTERM)
        self.assertEqual(other.end(), 1)


if __name__ == "__main__":
    harness.main()
