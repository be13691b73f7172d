"""A server of a shard that was lost comes back into the run, which goes on with it. See replicated.py."""

import re
import signal

import etcd
import harness
from calm_runs import ITERATIONS, LEASE
from replicated import ReplicatedRun


@etcd.needs_etcd
class ReplicaReturns(ReplicatedRun):
    """And then the other one may be lost."""

    def of_returns(self):
        """A run into which servers come back."""
        self.of_replicas += [f"checkpoint.every_clocks={ITERATIONS // 8}", "cluster.reconnect_timeout=60s"]

    def back(self, shard, replica, authority):
        """Another process of that replica. Training goes on, so each shard is in two places again; `authority`: which of
        its replicas serves."""
        run_dir = (self.run_dir, self.second())[authority]
        log = run_dir / "server.log"
        before = len(log.read_text(encoding="utf-8"))
        comes = self.server(shard, "--replica", replica, "--resume", *self.of_replicas)

        def since():
            return log.read_text(encoding="utf-8")[before:]

        # Of this return: a server that has just taken over may have training to begin that was about to.
        goes_on = re.compile("as a new generation.*training goes on at version", re.DOTALL)
        with harness.FolderWatch(run_dir) as watch:
            while not goes_on.search(since()):
                watch.wait(f"'{goes_on.pattern}' once more in {log}")
        text = since()
        self.assertNotIn("goes on alone", text[text.rindex("as a new generation"):])
        return comes

    def test_servers_that_were_lost_come_back_and_the_others_are_lost_then(self):
        self.configure_replicas(1, 6 * ITERATIONS)
        self.of_returns()
        model, servers, nodes = self.start_compared()
        first, second = servers[0]
        self.kill(first)
        second.wait_for_line("is served by this replica from here on, term 2")
        first = self.back(0, 0, 1)
        self.kill(second)
        first.wait_for_line("is served by this replica from here on")
        second = self.back(0, 1, 0)
        self.assert_as_if_nothing_had_happened(nodes, [first, second], model)
        self.assertEqual((self.second() / "model.bin").read_bytes(), model)  # of the one that follows to the end

    def test_a_shard_and_the_authority_come_back_one_after_the_other(self):
        self.configure_replicas(2, 6 * ITERATIONS)
        self.of_returns()
        model, servers, nodes = self.start_compared()
        self.kill(servers[1][0])
        servers[1][1].wait_for_line("is served by this replica from here on, term 2")
        servers[1][0] = self.back(1, 0, 0)
        self.kill(servers[0][0])
        servers[0][1].wait_for_line("is served by this replica from here on")
        servers[0][0] = self.back(0, 0, 1)
        self.kill(servers[1][1])
        self.kill(servers[0][1])
        self.assert_as_if_nothing_had_happened(nodes, [servers[0][0], servers[1][0]], model)

    def test_a_run_that_has_lost_both_servers_is_resumed_by_one_of_them(self):
        self.configure_replicas(1, 12 * ITERATIONS)  # the second is killed when a checkpoint has been seen, which may be late
        self.of_returns()
        model, servers, nodes = self.start_compared()
        self.kill(servers[0][0])
        servers[0][1].wait_for_line("is served by this replica from here on, term 2")
        self.wait_for_lines(self.second(), "of generation 1 is written")
        self.kill(servers[0][1])
        alone = self.server(0, *self.of_replicas, "cluster.replicas=1", "cluster.etcd=[]", f"run.out={self.second()}",
                            f'cluster.endpoints=["ipc://{self.folder}/0.1"]', "--resume")
        self.assert_as_if_nothing_had_happened(nodes, [alone], model, self.second())

    def test_one_that_comes_back_and_dies_at_once_costs_the_run_a_wait(self):
        self.configure_replicas(1, 6 * ITERATIONS)
        self.of_returns()
        model, servers, nodes = self.start_compared()
        self.kill(servers[0][1])
        comes = self.server(0, "--replica", 1, "--resume", *self.of_replicas)
        self.wait_for_log("server.log", "as a new generation")
        self.kill(comes)
        self.assert_as_if_nothing_had_happened(nodes, servers[0][:1], model)

    def between_two_generations(self, shards):
        """Servers, the one that comes back, and nodes of a run that is being reconfigured."""
        self.configure_replicas(shards, 40 * ITERATIONS)
        self.of_returns()
        self.of_replicas.append(f"cluster.reconnect_timeout={4 * LEASE:g}s")  # for which nodes wait in vain
        servers, nodes = self.start_replicas()
        self.kill(servers[0][1])
        comes = self.server(0, "--replica", 1, "--resume", *self.of_replicas)
        self.wait_for_log("server.log", "as a new generation")
        return servers, comes, nodes

    def test_a_stop_between_two_generations_is_a_stop(self):
        servers, comes, nodes = self.between_two_generations(shards=1)
        servers[0][0].send(signal.SIGUSR1)
        servers[0][0].send(signal.SIGTERM)
        for program in [servers[0][0], comes, *nodes]:
            self.assertEqual(program.end(), 1, program.errors())
        self.assertRegex("\n".join(servers[0][0].errors()), "stopped by a signal")

    def test_a_stop_of_another_shard_between_two_generations_stops_all(self):
        servers, comes, nodes = self.between_two_generations(shards=2)
        servers[1][0].send(signal.SIGTERM)
        for program in [servers[0][0], comes, *servers[1], *nodes]:
            self.assertEqual(program.end(), 1, program.errors())
        self.assertRegex("\n".join(servers[0][0].errors()), "stopped by a signal")
        self.assertNotRegex("\n".join(servers[0][0].errors()), "did not join within")

    def test_without_what_a_hand_over_needs_a_server_does_not_come_back(self):
        self.configure_replicas(1, 4 * ITERATIONS)
        servers, nodes = self.start_replicas()
        self.kill(servers[0][1])
        comes = self.server(0, "--replica", 1, "--resume", *self.of_replicas)
        self.assert_ends(comes, 1, "paceline-server replica 1: the replica that serves: a replica comes back into a run "
                         r"only where that is saved \(checkpoint.every or checkpoint.every_clocks\)")
        self.assert_succeed([*nodes, servers[0][0]])

    def test_a_second_server_that_was_lost_comes_back_in_a_run_with_keys(self):
        self.configure_replicas(1, 4 * ITERATIONS)
        self.of_returns()
        self.assertEqual(self.paceline("keygen", "--out", self.folder / "keys", "--nodes", 2).returncode, 0)
        self.of_replicas.append(f"security.keys={self.folder}/keys")
        model, servers, nodes = self.start_compared()
        self.kill(servers[0][1])
        servers[0][0].wait_for_line("it goes on alone")
        servers[0][1] = self.back(0, 1, 0)
        self.kill(servers[0][0])
        self.assert_as_if_nothing_had_happened(nodes, servers[0][1:], model, self.second())


if __name__ == "__main__":
    harness.main()
