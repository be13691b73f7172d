"""A network of namespaces of its own, whose cables are pulled out while a run trains. See harness.py.

Server, its second replica, etcd, node 0 and node 1 each have a namespace with an interface, and a cable from it to a switch (a bridge); a cut takes
the switch's end of a cable down: what is sent vanishes, and no connection is told. Skipped, with a message, where
namespaces are not permitted.
"""

import re
import signal
import time

import etcd
import harness
import namespaces
from calm_runs import LEASE
from harness import DaemonTest
from namespaces import InNamespaces

ADDRESS = {"server": "10.78.0.1", "node0": "10.78.0.2", "node1": "10.78.0.3", "second": "10.78.0.4", "etcd": "10.78.0.5"}
PORT = 5555
# Whichever the server notices first: that nothing comes from the node, or that nothing of what waits for it leaves.
TAKEN_NONE = f"it has taken none of the parameters it asked shard 0 for in {LEASE:g} s; "
SILENT = rf"({TAKEN_NONE})?silent for \d+\.\d s"
ITERATIONS = 500  # five seconds of both nodes, if nobody is in their way
SHORT_CUT = 0.8  # TCP sends again after pauses that double: what was cut for t is back after about 2 t + 1 s
LONG_LEASE = 20.0  # which such a cut does not come near, on a busy machine either


def ip(*words):
    namespaces.run("ip", *words)


def lay_cables():
    namespaces.run("mount", "-t", "tmpfs", "none", "/run")
    ip("link", "add", "switch", "type", "bridge")
    ip("link", "set", "switch", "up")
    for name, address in ADDRESS.items():
        ip("netns", "add", name)
        ip("link", "add", name, "type", "veth", "peer", "name", "cable", "netns", name)
        ip("link", "set", name, "master", "switch", "up")
        ip("-n", name, "link", "set", "lo", "up")
        ip("-n", name, "addr", "add", address + "/24", "dev", "cable")
        ip("-n", name, "link", "set", "cable", "up")


class NetworkCuts(InNamespaces, DaemonTest):
    """What a cut costs is said by the lease."""

    def setUp(self):
        super().setUp()
        endpoint = f"tcp://{ADDRESS['server']}:{PORT}"
        self.of_run = (f"cluster.endpoints=[{endpoint}]", "security.allow_insecure=true", f"cluster.lease={LEASE:g}s",
                       "cluster.heartbeat=500ms", "cluster.shared_memory=off", "cluster.threads_per_node=1",
                       "sync.policy=bsp", "emulate.base_step=20ms", f"train.total_iterations={ITERATIONS}")
        self.server_of_run = rf"server shard 0 \({re.escape(endpoint)}\)"
        self.addCleanup(self.plug_in, *ADDRESS)

    def daemon(self, namespace, program, *arguments):
        return self.start("nsenter", f"--net=/run/netns/{namespace}", harness.BIN / program, self.config, *arguments)

    def start_cabled(self, *overrides):
        """All daemons, once they train."""
        server = self.daemon("server", "paceline-server", "--shard", 0, *self.of_run, *overrides)
        nodes = [self.daemon(f"node{i}", "paceline-worker", "--node", i, *self.of_run, *overrides) for i in range(2)]
        server.wait_for_line(harness.PROGRESS.pattern)
        return server, nodes

    def pull_out(self, *cables):
        for name in cables:
            ip("link", "set", name, "down")

    def plug_in(self, *cables):
        for name in cables:
            ip("link", "set", name, "up")

    def assert_by_the_lease(self, line):
        """Who is lost was silent for a lease, not for less; for how much more is the machine's. That it is not what TCP or a
        wait for servers takes, minutes, says the deadline of whoever waits for the line."""
        if TAKEN_NONE not in line:  # which has a deadline of its own, since the parameters
            self.assertGreaterEqual(float(re.search(r"silent for (\d+\.\d) s", line)[1]), LEASE, line)

    def assert_ended_well(self, server, nodes, lost):
        """The run went to its end, with so many nodes lost; returns its summary. On a busy machine a start is worth a word."""
        summary = self.assert_all_done([server], nodes, may_speak=[server, *nodes])
        self.assertEqual(summary["lost_nodes"], lost)
        return summary

    def test_a_cut_that_is_shorter_than_the_lease_costs_nothing(self):
        self.of_run = tuple(word.replace(f"lease={LEASE:g}s", f"lease={LONG_LEASE:g}s") for word in self.of_run)
        self.assert_ended_well(*self.start_cabled(), lost=0)
        calm = (self.run_dir / "model.bin").read_bytes()
        server, nodes = self.start_cabled("--force", "--force")
        self.pull_out("node1")
        time.sleep(SHORT_CUT)  # the length of the cut is what is tested
        # It has bitten: training stands still until node 1 is back.
        server.send(signal.SIGUSR1)
        server.wait_for_line(r"asked what it waits for: .*worker 1\.0 \(node 1, ")
        self.plug_in("node1")
        summary = self.assert_ended_well(server, nodes, lost=0)
        self.assertEqual(summary["iterations"], ITERATIONS)
        self.assertEqual((self.run_dir / "model.bin").read_bytes(), calm, "other bits than without the cut")

    def test_a_node_that_is_cut_off_for_longer_is_lost_by_the_lease_and_the_others_go_on(self):
        server, nodes = self.start_cabled()
        self.pull_out("node1")
        self.assert_by_the_lease(server.wait_for_line("node 1 lost: " + SILENT))
        # It notices for itself, too, that it is alone, and ends.
        self.assert_ends(nodes[1], 1, rf"paceline-worker 1: {self.server_of_run} silent for \d+\.\d s")
        self.assert_by_the_lease(nodes[1].errors()[0])
        summary = self.assert_ended_well(server, nodes[:1], lost=1)
        self.assertRegex(summary["lost"][0], f"^node 1: {SILENT}$")

    def test_a_node_whose_cable_is_back_too_late_is_told_that_it_was_lost(self):
        server, nodes = self.start_cabled()
        self.pull_out("node1")
        server.wait_for_line("node 1 lost: " + SILENT)
        self.plug_in("node1")
        self.assert_ends(nodes[1], 1, rf"paceline-worker 1: {self.server_of_run}"
                         r"(: refuses us: (node 1 has gone from this run|\w+ before a join on this connection \(.*\))"
                         r"| silent for \d+\.\d s)")
        self.assert_ended_well(server, nodes[:1], lost=1)

    def test_a_server_that_is_cut_off_from_all_is_missed_by_all_by_the_lease_and_nobody_hangs(self):
        server, nodes = self.start_cabled()
        self.pull_out("server")
        for i, node in enumerate(nodes):
            self.assert_ends(node, 1, rf"paceline-worker {i}: {self.server_of_run} silent for \d+\.\d s")
            self.assert_by_the_lease(node.errors()[0])
        self.assertEqual(server.end(), 1)
        output = server.errors()
        self.assertEqual(len(output), 3, output)
        for line in output[:2]:
            self.assertRegex(line, f"^paceline-server: node [01] lost: {SILENT}$")
            self.assert_by_the_lease(line)
        self.assertEqual(output[2], "paceline-server: every node was lost before its share was done")

    # ---- with a second replica of the server, and an etcd

    def start_replicas(self):
        """All daemons, once they train: both servers, and nodes."""
        client = f"http://{ADDRESS['etcd']}:2379"
        self.start("nsenter", "--net=/run/netns/etcd",
                   *etcd.command(self.folder / "etcd", client, f"http://{ADDRESS['etcd']}:2380"))
        endpoints = ",".join(f'"tcp://{ADDRESS[name]}:{PORT}"' for name in ("server", "second"))
        self.of_run += (f"cluster.endpoints=[{endpoints}]", "cluster.replicas=2", f'cluster.etcd=["{client}"]')
        second = self.daemon("second", "paceline-server", "--replica", 1, *self.of_run)
        first, nodes = self.start_cabled()
        return first, second, nodes

    def assert_the_second_continued(self, first, second, nodes):
        summary = self.assert_all_done([second], nodes, self.folder / "run.replica1", may_speak=[second, *nodes])
        self.assertEqual((summary["iterations"], summary["iterations_lost"], summary["lost_nodes"]), (ITERATIONS, 0, 0))
        self.assertEqual(first.end(), 1, first.errors())
        self.assertRegex(first.errors()[-1], "shard 0 is not served by this replica any more")

    @etcd.needs_etcd
    def test_a_server_that_is_cut_off_from_all_stops_to_serve_and_its_second_replica_goes_on(self):
        first, second, nodes = self.start_replicas()
        since = time.monotonic()
        self.pull_out("server")
        second.wait_for_line("is served by this replica from here on, term 2")
        # Before the other one's lease had ended nobody else could, and by then that had gone silent.
        self.assertGreater(time.monotonic() - since, LEASE * 5 / 8)
        self.plug_in("server")
        self.assert_the_second_continued(first, second, nodes)

    @etcd.needs_etcd
    def test_a_server_that_its_nodes_reach_and_etcd_does_not_stops_to_serve(self):
        first, second, nodes = self.start_replicas()
        for name in ("etcd", "second"):
            ip("-n", "server", "route", "add", "blackhole", ADDRESS[name])
        first.wait_for_line("nobody is told anything by shard 0 until etcd answers: ")
        second.wait_for_line("is served by this replica from here on, term 2")
        for name in ("etcd", "second"):
            ip("-n", "server", "route", "del", "blackhole", ADDRESS[name])
        self.assert_the_second_continued(first, second, nodes)

    @etcd.needs_etcd
    def test_a_second_replica_that_is_cut_off_is_left_out_and_the_first_goes_on(self):
        first, second, nodes = self.start_replicas()
        self.pull_out("second")
        # Its last word may have been a heartbeat.
        first.wait_for_line(r"shard 0 has lost its follower: (silent|it has taken no event) for \d+\.\d s; it goes on alone")
        self.plug_in("second")
        self.assertEqual(second.end(), 1, second.errors())
        self.assertRegex(second.errors()[-1], "is left out: it lacks something that was acknowledged; start it again")
        self.assert_ended_well(first, nodes, lost=0)


if __name__ == "__main__":
    namespaces.main(["net", "mount"], lay_cables)
