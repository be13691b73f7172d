"""Nodes of an all-reduce that are killed for good, at moments that a seed draws: 50 of them, ten in each test. See harness.py."""

import random
import shutil
import signal
import time

import harness
from harness import DaemonTest

KILLS = 10  # of a test
ALGORITHMS = ("ring", "halving_doubling", "binary_blocks", "torus", "hierarchical", "direct", "tree", "auto")
ENDLESS = 96_000_000  # iterations: no run ends before it is told to
MORE = 200  # clocks of a run that is resumed


class AllReduceKills(DaemonTest):
    """kill -9 under every algorithm: the others name the node and go on, or stop, as told; none hangs; every step is whole.

    A run that stopped and is resumed ends in the bits of an undisturbed one. One that goes on takes steps that no other
    run takes: of those steps are counted here, and bits are compared in tests/unit/allreduce_loss_test.cc.
    """

    def test_kills_0_to_9(self):
        self.kill(0)

    def test_kills_10_to_19(self):
        self.kill(10)

    def test_kills_20_to_29(self):
        self.kill(20)

    def test_kills_30_to_39(self):
        self.kill(30)

    def test_kills_40_to_49(self):
        self.kill(40)

    def kill(self, first):
        self.compared = 0  # models
        self.stopped = 0
        made = self.paceline("keygen", "--out", self.folder / "keys", "--nodes", 4)
        self.assertEqual(made.returncode, 0, made.stderr)
        for seed in range(first, first + KILLS):
            with self.subTest(seed=seed):
                for run in (self.run_dir, self.folder / "calm"):
                    shutil.rmtree(run, ignore_errors=True)
                self.kill_one(seed)
        self.assertGreater(self.stopped, 1)
        self.assertEqual(self.compared, self.stopped)

    def kill_one(self, seed):
        drawn = random.Random(seed)
        algorithm = ALGORITHMS[seed % len(ALGORITHMS)]
        nodes = 4 if algorithm == "halving_doubling" else drawn.choice((2, 3, 4))
        on_loss = drawn.choice(("go_on", "stop"))
        parts = algorithm != "tree" and drawn.random() < 0.5
        memory = drawn.choice(("auto", "off"))
        threads = drawn.choice((1, 1, 2))
        encoding = drawn.choice(("fp32", "bf16"))
        keys = drawn.choice((f"{self.folder}/keys", "null"))
        self.shown = (algorithm, nodes, on_loss, parts, memory, threads, encoding, keys)
        overrides = ("exchange.kind=allreduce", f"exchange.algorithm={algorithm}", f"exchange.on_loss={on_loss}",
                     f"exchange.shard_optimizer={str(parts).lower()}", f"cluster.shared_memory={memory}",
                     f"cluster.nodes={nodes}", f"cluster.threads_per_node={threads}", "sync.policy=bsp",
                     f"cluster.gradient_encoding={encoding}", f"security.keys={keys}", "exchange.bucket_bytes=256",
                     "train.layers=[{kind: flatten}, {kind: dense, out: 16}, {kind: dense, out: 10}]",
                     "train.optimizer.kind=adam", "checkpoint.every_clocks=200",
                     "checkpoint.keep=2")
        endless = (*overrides, f"train.total_iterations={ENDLESS}")
        server = self.server(0, *endless)
        workers = [self.node(i, *endless) for i in range(nodes)]
        self.wait_for_written(1)  # there is something to go on from
        time.sleep(drawn.uniform(0, 0.3))  # a moment within a step, not one to wait for
        victim = drawn.randrange(nodes)
        workers[victim].send(signal.SIGKILL)
        workers[victim].end()
        others = [worker for i, worker in enumerate(workers) if i != victim]
        goes_on = on_loss == "go_on"
        if goes_on:
            self.wait_for_log("server.log", f"node {victim} lost")
            self.wait_for_written(self.in_log("server.log", " is written: ") + 2)  # one may have been under way
            server.send(signal.SIGTERM)
        for program in (server, *others):
            self.assertEqual(program.end(), 1, (self.shown, program.name, program.errors()))
        for worker in others if goes_on else ():  # the first that it says is who has gone, not who has left for that
            left = next(line for line in worker.errors() if " leaves formation " in line)
            self.assertRegex(left, rf"^\D*\d+: node {victim} (\(.*\) closed its connection|lost: ).*: node \d+ leaves formation \d+ at version \d+$", self.shown)
        summary = self.summary()
        self.assertRegex(summary["lost"][0], rf"^node {victim}: ", self.shown)
        if goes_on:
            self.assertEqual((summary["status"], summary["lost_nodes"]), ("stopped", 1), self.shown)
            self.assert_whole_steps(summary, nodes, threads)
        else:
            self.stopped += 1
            total = summary["iterations"] + MORE * nodes * threads
            self.assert_goes_on_to_the_same_bits((*overrides, f"train.total_iterations={total}"), total, nodes, algorithm)

    def assert_whole_steps(self, summary, nodes, threads):
        """So many steps of all nodes, and then so many of all but one."""
        left_out = nodes * threads * summary["final_version"] - summary["iterations"]
        self.assertEqual(left_out % threads, 0, (self.shown, summary))
        self.assertTrue(0 < left_out // threads < summary["final_version"], (self.shown, summary))

    def assert_goes_on_to_the_same_bits(self, overrides, total, nodes, algorithm):
        """From its last checkpoint, which is of a whole step; what `auto` has measured is kept with the run."""
        kept = {path.name for path in self.run_dir.glob("algorithms-node*.txt")}
        self.assertEqual(len(kept), nodes if algorithm == "auto" else 0, self.shown)
        programs = [self.server(0, "--resume", *overrides),
                    *(self.node(i, "--resume", *overrides) for i in range(nodes))]
        for program in programs:
            self.assertEqual(program.end(), 0, (self.shown, program.name, program.errors()))
        model = (self.run_dir / "model.bin").read_bytes()
        summary = self.summary()
        self.assertEqual((summary["status"], summary["iterations"]), ("ok", total), self.shown)
        if algorithm == "auto":
            self.assertIn("as measured before", summary["algorithms"][0], self.shown)
        calm = (*overrides, f"run.out={self.folder}/calm")
        if algorithm == "auto":  # which adds in the order of its table
            for i in range(nodes):
                shutil.copy(self.run_dir / f"algorithms-node{i}.txt", self.folder)
        programs = [self.server(0, *calm),
                    *(self.node(i, *calm, *((f"exchange.measured={self.folder}/algorithms-node{i}.txt",)
                                            if algorithm == "auto" else ())) for i in range(nodes))]
        for program in programs:
            self.assertEqual(program.end(), 0, (self.shown, program.name, program.errors()))
        self.assertEqual((self.folder / "calm" / "model.bin").read_bytes(), model, self.shown)
        self.compared += 1


if __name__ == "__main__":
    harness.main()
