"""A run with two servers of each shard (cluster.replicas: 2) and a real etcd that decides between them. See harness.py."""

import json
import re
import signal

import etcd
import harness
from calm_runs import ITERATIONS, LEASE, CalmRuns


class ReplicatedRun(CalmRuns):
    """The same run as one of which no server is lost: the same iterations, none of them twice, the same bits."""

    def setUp(self):
        super().setUp()
        self.etcd, self.etcd_endpoint = etcd.start(self)
        self.configure_replicas(1)

    def configure_replicas(self, shards, iterations=ITERATIONS):
        self.configure(shards=shards)
        self.iterations = iterations
        first, second = ([f"ipc://{self.folder}/{k}.{r}" for k in range(shards)] for r in range(2))
        listed = ",".join(f'"{endpoint}"' for endpoint in first + second)
        self.of_replicas = [f"train.total_iterations={iterations}", f"cluster.lease={LEASE:g}s", "cluster.replicas=2",
                            f'cluster.etcd=["{self.etcd_endpoint}"]', f"cluster.endpoints=[{listed}]"]

    def start_replicas(self):
        """Servers by shard and replica, and nodes; training has begun."""
        servers = [[self.server(k, "--replica", r, *self.of_replicas) for r in range(2)] for k in range(self.shards)]
        nodes = [self.node(i, *self.of_replicas) for i in range(2)]
        servers[0][0].wait_for_line(harness.PROGRESS.pattern)
        return servers, nodes

    def start_compared(self):
        """As start_replicas(), after the model of a run of which no server is lost."""
        return self.calm_model(*self.of_replicas), *self.start_replicas()

    def wait_for_lines(self, run_dir, *texts):
        """Until that server's log has them, each after the one before."""
        log = run_dir / "server.log"
        with harness.FolderWatch(run_dir) as watch:
            while not (log.exists() and
                       re.search(".*".join(map(re.escape, texts)), log.read_text(encoding="utf-8"), re.DOTALL)):
                watch.wait(f"{texts} in {log}")

    def kill(self, program):
        program.send(signal.SIGKILL)
        self.assertEqual(program.end(), -9)

    def assert_as_if_nothing_had_happened(self, nodes, servers, model, run_dir=None):
        self.assert_succeed(nodes + servers)
        run_dir = run_dir or self.run_dir
        summary = json.loads((run_dir / "summary.json").read_text(encoding="utf-8"))
        self.assertEqual((summary["status"], summary["iterations"], summary["iterations_lost"], summary["lost_nodes"]),
                         ("ok", self.iterations, 0, 0))
        self.assertEqual((run_dir / "model.bin").read_bytes(), model)

    def second(self):
        return self.folder / "run.replica1"
