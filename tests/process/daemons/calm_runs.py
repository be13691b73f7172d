"""Runs that end as if nothing had happened to them: in the bits of a run to which nothing did. See harness.py."""

import harness
from harness import DaemonTest

# Of four workers: a second, of which what happens comes in the first part. A build with a sanitizer needs fewer for that.
ITERATIONS = 600 if harness.SANITIZED else 4000
# Seconds, where silence is what a test waits for: who lives keeps it on a machine with a load of 30, too.
LEASE = 8.0
# Of two nodes that are the stages of a network (docs/PIPELINES.md).
STAGES = ("pipeline.stages=2", "pipeline.micro_batches=3", "pipeline.schedule=1f1b", "pipeline.rematerialize=on",
          "sync.policy=bsp", "cluster.threads_per_node=1",
          "train.layers=[{kind: flatten}, {kind: dense, out: 8}, {kind: relu}, {kind: dropout, rate: 0.5}, "
          "{kind: dense, out: 8}, {kind: dense, out: 10}]")
# Two groups of them, which sum stage by stage.
SUMMING_STAGES = (*STAGES, "cluster.nodes=4", "exchange.kind=allreduce", "exchange.on_loss=stop")
# Of one in which that waits for checkpoints first.
SAVED_ITERATIONS = 1000 if harness.SANITIZED else 4000


class CalmRuns(DaemonTest):
    """The models of runs in which nothing happens, each trained once for all tests of a class."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls._calm = {}

    def calm_model(self, *overrides):
        """The bytes that a run on as many shards comes to. Of the overrides only those of `train`, `sync` and `exchange` are its
        own, and stages: how it is saved, served and watched changes no bit."""
        training = tuple(each for each in overrides if each.startswith(
            ("train.", "sync.", "exchange.", "pipeline.", "cluster.threads_per_node", "cluster.nodes")))
        run = (self.shards, *training)
        if run not in self._calm:
            out = self._shared / f"calm-{len(self._calm)}"
            servers, nodes = self.start_run(*training, f"run.out={out}")
            self.assert_end_quietly(servers + nodes)
            self._calm[run] = (out / "model.bin").read_bytes()
        return self._calm[run]
