"""Nodes come back, or late, while a run goes on. See harness.py."""

import contextlib
import signal

import harness
from harness import DaemonTest

# A clock takes 200 ms, so that a process can die and be started again in a run of seconds, whatever the machine.
PACE = ("cluster.nodes=4", "cluster.threads_per_node=1", "emulate.base_step=200ms", "emulate.cores=4",
        "cluster.heartbeat=200ms")


class Joins(DaemonTest):
    """kill -9 of a node, and its number taken again; nodes beyond those that a run begins with."""

    def start_nodes(self, shards, clocks, *overrides, nodes=4):
        """Of four workers; where fewer are there, as many iterations take more clocks."""
        self.configure(shards=shards)
        self.iterations = 4 * clocks
        self.run_of = (*PACE, f"train.total_iterations={self.iterations}", *overrides)
        servers = [self.server(k, *self.run_of) for k in range(shards)]
        return servers, [self.node(i, *self.run_of) for i in range(nodes)]

    def again(self, number, *arguments):
        return self.node(number, *self.run_of, "--resume", *arguments)

    def kill(self, node):
        node.send(signal.SIGKILL)
        self.assertEqual(node.end(), -9)

    @contextlib.contextmanager
    def standing_still(self, node):
        """A node of bsp, so that the run ends only after this, however long it takes (the lease is a minute)."""
        node.send(signal.SIGSTOP)
        yield
        node.send(signal.SIGCONT)

    def lines(self, text):
        return (self.run_dir / "server.log").read_text(encoding="utf-8").count(text)

    def wait_for_lines(self, text, count):
        with harness.FolderWatch(self.run_dir) as watch:
            while self.lines(text) < count:
                watch.wait(f"'{text}' {count} times in server.log")

    def assert_all_done(self, servers, nodes):
        summary = super().assert_all_done(servers, nodes, may_speak=servers + nodes)
        self.assertEqual(summary["iterations"], self.iterations)
        return summary

    def test_a_killed_node_that_is_started_again_takes_part_again(self):
        for shards in (1, 2):
            with self.subTest(shards=shards):
                servers, nodes = self.start_nodes(shards, 12)
                servers[0].wait_for_line(harness.PROGRESS.pattern)
                with self.standing_still(nodes[2]):
                    self.kill(nodes[1])
                    servers[0].wait_for_line("node 1 lost: its connection broke")
                    # By the configuration that the run has recorded, with every value written out (docs/GUIDE.md).
                    nodes[1] = self.start(harness.BIN / "paceline-worker", self.run_dir / "config.yaml", "--node", 1, "--resume")
                    self.wait_for_log("server.log", "node 1 is back and takes part, at version ")
                summary = self.assert_all_done(servers, nodes)
                self.assertEqual((summary["lost_nodes"], summary["returned_nodes"]), (1, 1))
                self.assertRegex(summary["returned"][0], r"^node 1 at version \d+$")
                self.assertLessEqual(summary["iterations_lost"], 1)
                report = self.paceline("report", self.run_dir)
                self.assertRegex(report.stdout, r"(?m)^  lost node 1: its connection broke$")
                self.assertRegex(report.stdout, r"(?m)^  came back: node 1 at version \d+$")
                self.run_dir.rename(self.folder / f"run-of-{shards}")

    def test_a_node_that_is_started_again_before_it_is_missed_waits_until_it_is(self):
        """It stands still, so that only its lease tells; and then another one does, for less than that."""
        servers, nodes = self.start_nodes(2, 12, "cluster.lease=10s")
        servers[0].wait_for_line(harness.PROGRESS.pattern)
        nodes[3].send(signal.SIGSTOP)
        elsewhere = self.again(3, f"run.out={self.folder}/another-host")
        # A shard that it had asked for parameters may notice first that it takes none.
        servers[0].wait_for_line(r"node 3 lost: (it has taken .*; |shard 1: )?silent for \d+\.\d s")
        with self.standing_still(nodes[2]):
            self.wait_for_log("server.log", "node 3 is back and takes part")
        nodes[3].send(signal.SIGCONT)
        self.assertEqual(nodes[3].end(), 1)  # which is a stranger now, and is told so
        nodes[3] = elsewhere
        summary = self.assert_all_done(servers, nodes)
        self.assertEqual((summary["lost_nodes"], summary["returned_nodes"]), (1, 1))

    def test_node_0_and_every_other_may_come_back_again_and_again(self):
        servers, nodes = self.start_nodes(1, 15)
        servers[0].wait_for_line(harness.PROGRESS.pattern)
        for times, number in enumerate((0, 3, 0)):
            with self.standing_still(nodes[2]):
                self.kill(nodes[number])
                nodes[number] = self.again(number)
                self.wait_for_lines("is back and takes part", times + 1)
        summary = self.assert_all_done(servers, nodes)
        self.assertEqual((summary["lost_nodes"], summary["returned_nodes"]), (3, 3))

    def test_a_run_begins_with_as_many_nodes_as_it_must_have_and_grows(self):
        servers, nodes = self.start_nodes(2, 8, "cluster.nodes={min: 2, max: 4}", nodes=2)
        servers[0].wait_for_line(harness.PROGRESS.pattern)
        with self.standing_still(nodes[1]):
            nodes.append(self.node(2, *self.run_of))
            self.wait_for_log("server.log", "node 2 has come and takes part, at version ")
        summary = self.assert_all_done(servers, nodes)
        self.assertEqual((summary["nodes"], summary["lost_nodes"], summary["late_nodes"]), (4, 0, 1))
        self.assertRegex(summary["late"][0], r"^node 2 at version \d+$")

    def test_a_node_that_came_late_is_waited_for_when_the_servers_are_resumed(self):
        checkpoints = ("cluster.nodes={min: 2, max: 4}", "checkpoint.every_clocks=2", "cluster.reconnect_timeout=60s",
                       "cluster.lease=10s")
        servers, nodes = self.start_nodes(2, 25, *checkpoints, nodes=2)
        servers[0].wait_for_line(harness.PROGRESS.pattern)
        nodes.append(self.node(2, *self.run_of))
        self.wait_for_log("server.log", "node 2 has come and takes part, at version ")
        self.wait_for_lines("is written: ", 2 + self.lines("is written: "))  # one of them began when it was there
        for server in servers:
            self.kill(server)
        servers = [self.server(k, *self.run_of, "--resume") for k in range(2)]
        summary = self.assert_all_done(servers, nodes)
        self.assertEqual((summary["lost_nodes"], summary["late_nodes"], summary["generation"]), (0, 1, 2))


if __name__ == "__main__":
    harness.main()
