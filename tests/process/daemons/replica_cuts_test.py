"""Connections between servers that break while both live, in a run with replicas. See replicated.py, breaker.py."""

import etcd
import harness
from breaker import Breaker, free_port
from calm_runs import ITERATIONS
from replicated import ReplicatedRun


@etcd.needs_etcd
class ReplicaCuts(ReplicatedRun):
    """They cost the run a reconfiguration, and no server."""

    def setUp(self):
        super().setUp()
        self.breakers = []

    def tearDown(self):
        for breaker in self.breakers:
            breaker.close()
        super().tearDown()

    def start_over_tcp(self, shards, relayed, iterations):
        """`relayed`: the shard and the replica whose connections to the first server of the authority can be broken, by
        the breaker that is returned."""
        self.configure_replicas(shards, iterations)
        self.of_replicas += [f"checkpoint.every_clocks={ITERATIONS // 8}", "cluster.reconnect_timeout=60s"]
        model = self.calm_model(*self.of_replicas)
        ports = [free_port() for _ in range(2 * shards)]
        breaker = Breaker(ports[0], seed=0, breaks=0, least=1, most=1)
        self.breakers.append(breaker)

        def at(first):
            return "cluster.endpoints=[" + ",".join(f"tcp://127.0.0.1:{port}" for port in [first, *ports[1:]]) + "]"
        self.at = at(ports[0])
        servers = [[self.server(k, "--replica", r, *self.of_replicas, at(breaker.port) if (k, r) in relayed else self.at)
                    for r in range(2)] for k in range(shards)]
        nodes = [self.node(i, *self.of_replicas, self.at) for i in range(2)]
        servers[0][0].wait_for_line(harness.PROGRESS.pattern)
        return servers, nodes, breaker, model

    def test_a_follower_whose_connection_breaks_comes_back_by_itself_and_can_serve(self):
        servers, nodes, breaker, model = self.start_over_tcp(1, [(0, 1)], 4 * ITERATIONS)
        breaker.break_all()
        self.wait_for_lines(self.second(), "it comes back, for which the run is reconfigured")
        self.wait_for_lines(self.run_dir, "goes on from version", "follower has all there is")
        self.kill(servers[0][0])
        self.assert_as_if_nothing_had_happened(nodes, [servers[0][1]], model, self.second())

    def test_a_shard_whose_connection_breaks_as_the_run_is_handed_over_hears_of_it(self):
        servers, nodes, breaker, model = self.start_over_tcp(2, [(1, 0), (1, 1)], 4 * ITERATIONS)
        self.kill(servers[0][1])
        comes = self.server(0, "--replica", 1, "--resume", *self.of_replicas, self.at)
        self.wait_for_log("server.log", "all servers go on from the checkpoint")
        breaker.break_all()
        self.assert_as_if_nothing_had_happened(nodes, [servers[0][0], comes, *servers[1]], model)


if __name__ == "__main__":
    harness.main()
