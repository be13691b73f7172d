"""A part of a run dies, stands still or never comes. See harness.py."""

import re
import shutil
import signal
import socket

import harness
from calm_runs import LEASE, STAGES, SUMMING_STAGES
from harness import DaemonTest

LONG_LEASE = f"cluster.lease={10 * harness.DEADLINE:g}s"  # no test waits so long


class Crashes(DaemonTest):
    """kill -9 of each part in the middle of a run."""

    def test_a_killed_node_is_named_and_the_others_go_on(self):
        servers, nodes = self.start_training("run.max_seconds=5s")
        nodes[1].send(signal.SIGKILL)
        self.assert_ends(servers[0], 0, "paceline-server: node 1 lost: its connection broke")
        self.assert_ends(nodes[0], 0)
        summary = self.summary()
        self.assertEqual((summary["status"], summary["lost_nodes"]), ("ok", 1))
        self.assertEqual(summary["lost"], ["node 1: its connection broke"])

    def test_an_all_reduce_goes_on_without_a_killed_node_long_before_its_lease_is_over(self):
        servers, nodes = self.start_training("exchange.kind=allreduce", LONG_LEASE)
        self.wait_for_log("server.log", "window 0 closed at version")
        nodes[1].send(signal.SIGKILL)
        nodes[0].wait_for_line(r"formation 2, without node\(s\) 1: 1 nodes go on from version \d")
        servers[0].send(signal.SIGTERM)
        for program in (servers[0], nodes[0]):
            self.assertEqual(program.end(), 1, program.errors())
        summary = self.summary()
        self.assertEqual((summary["status"], summary["lost"]), ("stopped", ["node 1: its connection broke"]))

    def test_of_an_all_reduce_that_is_to_stop_a_killed_node_is_named_by_all_long_before_its_lease_is_over(self):
        self.assert_a_killed_node_is_named_by_all("exchange.kind=allreduce", "exchange.on_loss=stop")

    def assert_a_killed_node_is_named_by_all(self, *arguments):
        servers, nodes = self.start_training(*arguments, LONG_LEASE)
        nodes[1].send(signal.SIGKILL)
        for program in (servers[0], nodes[0], *nodes[2:]):
            self.assertEqual(program.end(), 1)
            # The last where it is gone before that one has reached it.
            self.assertRegex(program.errors()[-1],
                             r"node 1( \(127\.0\.0\.1:\d+\))?( lost| closed its connection|: Connection refused)")
        lost = self.summary()["lost"]
        self.assertRegex(lost[0], r"^node 1: ", lost)  # not the one that was there to see it

    def test_of_an_all_reduce_a_node_that_stands_still_is_named_after_its_lease(self):
        servers, nodes = self.start_training("exchange.kind=allreduce", "exchange.on_loss=stop", f"cluster.lease={LEASE:g}s")
        nodes[1].send(signal.SIGSTOP)
        for program in (servers[0], nodes[0]):
            self.assertEqual(program.end(), 1)
            self.assertRegex(program.errors()[-1], r"node 1 lost: silent for \d+\.\d s \((exchange\.on_loss: stop|.* until its first step)\)")
        nodes[1].send(signal.SIGCONT)
        self.assertEqual(nodes[1].end(), 1)

    def test_of_a_pipeline_a_killed_stage_is_named_by_all_long_before_its_lease_is_over(self):
        self.assert_a_killed_node_is_named_by_all(*STAGES)

    def test_of_stages_that_sum_by_themselves_a_killed_one_is_named_by_all_long_before_its_lease_is_over(self):
        self.assert_a_killed_node_is_named_by_all(*SUMMING_STAGES)

    def test_a_node_that_stands_still_is_lost_after_its_lease_and_learns_of_it(self):
        # The others go on after the loss, and the server is there to tell it.
        servers, nodes = self.start_training(f"run.max_seconds={LEASE + 7:g}s", f"cluster.lease={LEASE:g}s")
        nodes[1].send(signal.SIGSTOP)
        # A shard that it had asked for parameters may notice first that it takes none.
        servers[0].wait_for_line(r"node 1 lost: (it has taken .*; )?silent for \d+\.\d s")
        nodes[1].send(signal.SIGCONT)
        # It had also taken nothing of what it asked for, so that its connection may have been broken.
        self.assert_ends(nodes[1], 1, r"paceline-worker 1: server shard 0 \(ipc://.*/0\): refuses us: "
                         r"(node 1 has gone from this run|Heartbeat before a join on this connection \(.*\))")
        self.assertEqual(servers[0].end(), 0)
        self.assert_ends(nodes[0], 0)

    def test_a_node_that_stands_still_with_a_long_lease_is_named_and_the_run_goes_on_after_it(self):
        servers, nodes = self.start_training("run.max_seconds=8s")
        nodes[1].send(signal.SIGSTOP)
        who = r"worker 1\.[01] \(node 1, last seen \d+\.\d s ago, clock \d+\)"
        self.wait_for_log("server.log", "not reported")
        log = (self.run_dir / "server.log").read_text(encoding="utf-8")
        self.assertRegex(log, rf"for \d+\.\d s: .*(version \d+|the stop).*: {who}.* not reported")
        for program in (servers[0], nodes[0]):  # which a node takes no notice of
            program.send(signal.SIGUSR1)
        asked = servers[0].wait_for_line("asked what it waits for.* not reported")
        self.assertRegex(asked, rf"^paceline-server: asked what it waits for: for \d+\.\d s: .*{who}.* not reported$")
        nodes[1].send(signal.SIGCONT)
        self.assertEqual(servers[0].end(), 0)
        self.assert_end_quietly(nodes)
        self.assertEqual((self.summary()["status"], self.summary()["lost_nodes"]), ("ok", 0))
        self.assertRegex((self.run_dir / "server.log").read_text(encoding="utf-8"),
                         r"over after \d+\.\d s: the wait for (version \d+|the stop), until all have reported")

    def test_a_shard_that_stands_still_with_a_long_lease_is_named_by_the_nodes_and_the_run_goes_on_after_it(self):
        self.configure(shards=2)
        servers, nodes = self.start_training()
        for i in range(2):  # training begins when all have joined the authority
            self.wait_for_log(f"worker-{i}.log", "joined 2 server(s)")
        servers[1].send(signal.SIGSTOP)
        # What the authority waits for is theirs: gradients that are not whole there, or reports of who has no parameters.
        for i in range(2):
            self.wait_for_log(f"worker-{i}.log", f"; server shard 1 ({self.endpoints[1]}) was last seen ")
        servers[1].send(signal.SIGCONT)
        for i in range(2):
            self.wait_for_log(f"worker-{i}.log", "over after ")  # the run goes on
        servers[0].send(signal.SIGTERM)
        for program in servers + nodes:
            self.assertEqual(program.end(), 1, program.errors())
        summary = self.summary()
        self.assertEqual((summary["status"], summary["reason"], summary["lost_nodes"]),
                         ("stopped", "stopped by a signal", 0))

    def test_without_the_authority_everybody_ends_after_the_lease(self):
        self.configure(shards=2)
        servers, nodes = self.start_training(f"cluster.lease={LEASE:g}s")
        servers[0].send(signal.SIGKILL)
        for i, node in enumerate(nodes):
            self.assert_ends(node, 1,
                             rf"paceline-worker {i}: server shard 0 \({self.endpoints[0]}\) silent for \d+\.\d s")
        self.assert_ends(servers[1], 1,
                         rf"paceline-server 1: the authority \({self.endpoints[0]}\) was silent for \d+\.\d s")

    def test_a_killed_shard_ends_the_run_and_everybody_names_it(self):
        self.configure(shards=2)
        servers, nodes = self.start_training()
        servers[1].send(signal.SIGKILL)
        lost = rf"server shard 1 \({self.endpoints[1]}\) lost: its connection broke"
        self.assert_ends(servers[0], 1, "paceline-server: the run failed: " + lost)
        for i, node in enumerate(nodes):
            self.assert_ends(node, 1, f"paceline-worker {i}: " + lost)
        self.assertRegex(self.summary()["reason"], lost)


class Starts(DaemonTest):
    """Who is missing, and who is not let in."""

    def test_a_missing_node_is_named(self):
        node = self.ready_node(0)
        server = self.server(0, "cluster.start_timeout=3s")
        self.assert_ends(server, 1, "paceline-server: the run failed: node 1 has not joined within 3 s")
        self.assert_ends(node, 1, "paceline-worker 0: node 1 has not joined within 3 s")

    def test_a_port_in_use(self):
        with socket.socket() as used:
            used.bind(("127.0.0.1", 0))
            used.listen()
            endpoint = f"tcp://127.0.0.1:{used.getsockname()[1]}"
            for _ in range(2):  # the first has not used up the run directory
                server = self.server(0, f"cluster.endpoints=[{endpoint}]")
                self.assert_ends(server, 1, f"paceline-server: cluster.endpoints: cannot bind {endpoint}: Address already in use")
                self.assertEqual(list(self.run_dir.iterdir()), [])

    def test_a_name_that_leads_to_loopback_is_warned_of(self):
        hosts = self.folder / "hosts"  # as Debian leaves it
        hosts.write_text("127.0.0.1 localhost\n127.0.1.1 alpha\n", encoding="ascii")
        with socket.socket() as free:
            free.bind(("127.0.1.1", 0))
            endpoint = f"tcp://alpha:{free.getsockname()[1]}"
        server = self.start(*self.seeing(hosts, at="/etc/hosts"), harness.BIN / "paceline-server", self.config,
                            f'cluster.endpoints=["{endpoint}"]', "security.allow_insecure=true")
        server.wait_for_line(f"{endpoint} leads to 127.0.1.1, where no other machine comes; take that name's line with")
        server.send(signal.SIGTERM)
        self.assertEqual(server.end(), 1)

    def test_an_endpoint_that_is_a_file(self):
        thesis = self.folder / "thesis.tex"
        thesis.write_text("three years of work", encoding="utf-8")
        self.assert_ends(self.server(0, f"cluster.endpoints=[ipc://{thesis}]"), 2,
                         f"paceline-server: cluster.endpoints: cannot bind ipc://{thesis}: got an ordinary file at {thesis}, "
                         "expected a socket or nothing there")
        self.assertEqual(thesis.read_text(encoding="utf-8"), "three years of work")

    def ready_node(self, number):
        """A node that only waits for its servers: what it has to do takes long on a busy machine."""
        node = self.node(number)
        self.wait_for_log(f"worker-{number}.log", "")
        return node

    def refused_node(self, number, *overrides):
        """A whole run but for this node, which must be refused; returns what it was told."""
        server, node = self.server(0), self.node(0)
        self.wait_for_log("server.log", "node 0 joined")
        other = self.node(number, *overrides)
        self.assertEqual(other.end(), 1)
        self.assertEqual(len(other.errors()), 1, other.errors())
        printed = re.fullmatch(rf"paceline-worker {number}: server shard 0 \({self.endpoints[0]}\): refuses us: (.*)",
                            other.errors()[0])
        self.assertTrue(printed, other.errors())
        server.send(signal.SIGTERM)
        why = "stopped by a signal before training began; node 1 has not joined"
        if number == 1:
            why += "; refused: " + re.escape(printed[1])
        self.assert_ends(server, 1, "paceline-server: refused: " + re.escape(printed[1]),
                         "paceline-server: the run failed: " + why)
        self.assert_ends(node, 1, "paceline-worker 0: " + why)
        self.assertRegex(self.summary()["reason"], f"^{why}$")
        return printed[1]

    def test_another_configuration_is_refused(self):
        for override in ("run.seed=4", "train.layers=[{kind: flatten}, {kind: dense, out: 5}, {kind: dense, out: 10}]"):
            with self.subTest(override=override):
                shutil.rmtree(self.run_dir, ignore_errors=True)
                key, value = override.split("=", 1)
                printed = self.refused_node(1, override)
                self.assertIn(f"node 1: another configuration: {key}: got {value if key == 'run.seed' else '['}", printed)
                self.assertRegex(printed, r", expected .*: give every daemon the same configuration$")
                self.assertFalse((self.run_dir / "worker-1.log").exists())  # so that the right command is not refused

    def test_a_node_number_is_taken_once(self):
        self.assertRegex(self.refused_node(0, f"run.out={self.folder}/another"), "^node 0: already taken by another "
                         r"process of this run \(incarnation 0x[0-9a-f]{16}, got 0x[0-9a-f]{16}\)$")

    def test_the_log_of_a_live_node_or_server_is_left_alone(self):
        server, node = self.server(0), self.node(0)
        self.wait_for_log("server.log", "node 0 joined")
        self.assert_ends(self.node(0), 2, r"paceline-worker: the run directory .* already holds a run of node 0 "
                         r"\(worker-0\.log\); choose another run\.out, go on with that run with --resume, or replace it "
                         r"with --force \(existing= in Python\)")
        self.assert_ends(self.node(0, "--force"), 2, r"paceline-worker: the run directory .* already holds a run of "
                         r"node 0 \(worker-0\.log\), and that node is still alive")
        for existing in ("--force", "--resume"):
            self.assert_ends(self.server(0, existing), 2, r"paceline-server: the run directory .* is that of another server of "
                             r"shard 0, which is still alive \(server\.log is locked\); .*")
        server.send(signal.SIGTERM)
        self.assertEqual((server.end(), node.end()), (1, 1))
        self.assertFalse((self.run_dir / "worker-0.log").exists())  # of a node that has not trained


if __name__ == "__main__":
    harness.main()
