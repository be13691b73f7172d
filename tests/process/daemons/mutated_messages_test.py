"""Mutated messages from strangers, over a real socket, at the server of a run that trains meanwhile. See harness.py.

    mutated_messages_test.py BIN SOURCE                          as many as the suite throws
    mutated_messages_test.py BIN SOURCE --messages 1000000       a million; prints how fast, and what became of the run
"""

import random
import re
import signal
import socket
import sys

import flood
import harness
from harness import DaemonTest

MESSAGES = 20_000


class MutatedMessages(DaemonTest):
    """The run ends in the same bits as one at which nobody has thrown anything."""

    RUN = ("cluster.threads_per_node=1", "sync.policy=bsp")

    def setUp(self):
        super().setUp()
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.over_tcp = f"tcp://127.0.0.1:{free.getsockname()[1]}"

    def throw_at(self, endpoint, servers, nodes):
        """All of them, and ends the run; returns how many iterations that took."""
        seed = random.randrange(2**32)
        thrower = self.start(harness.BIN.parent / "tests/mutated_messages", endpoint, MESSAGES, seed)
        if MESSAGES > 100_000:
            thrower.process.wait()  # as long as it takes
        self.assertEqual(thrower.end(), 0, thrower.errors())
        print(thrower.output(), file=sys.stderr)
        servers[0].send(signal.SIGTERM)
        self.assertEqual(servers[0].end(), 1, servers[0].errors())
        for node in nodes:
            self.assertEqual(node.end(), 1, node.errors())
        summary = self.summary()
        self.assertEqual((summary["status"], summary["reason"], summary["lost_nodes"]),
                         ("stopped", "stopped by a signal", 0), f"seed {seed}")
        # All were counted, but for what has no right to a word and goes without one: a Leave. And so was the join that is
        # refused at the end of each connection.
        joins = int(re.search(r"over (\d+) connections", thrower.output())[1])
        self.assertGreater(summary["malformed"] - joins, 0.9 * MESSAGES, f"seed {seed}")
        return summary["iterations"]

    def check_the_same_bits(self, iterations, endpoint):
        thrown_at = (self.run_dir / "model.bin").read_bytes()
        servers, nodes = self.start_run(*self.RUN, endpoint, "--force", f"train.total_iterations={iterations}")
        self.assert_end_quietly(servers + nodes)
        self.assertEqual(self.summary()["iterations"], iterations)
        self.assertEqual((self.run_dir / "model.bin").read_bytes(), thrown_at, "other bits than in peace")
        print(f"{iterations} iterations meanwhile, to the same bits as a run in peace", file=sys.stderr)

    def test_a_run_under_fire_ends_in_the_bits_of_one_in_peace(self):
        endpoint = f"cluster.endpoints=[{self.over_tcp}]"
        servers, nodes = self.start_training(*self.RUN, endpoint)
        iterations = self.throw_at(self.over_tcp, servers, nodes)
        self.assertGreater(iterations, 0)
        self.check_the_same_bits(iterations, endpoint)

    def test_nodes_that_talk_nonsense_are_lost_and_another_trains_on(self):
        fools = 12
        overrides = (f"cluster.nodes={1 + fools}", "cluster.threads_per_node=1", "sync.policy=asp",
                     "cluster.shared_memory=off")
        join = flood.recorded_join(self, *overrides)
        server = self.server(0, *overrides)
        self.wait_for_log("server.log", "listens on")
        node = self.node(0, *overrides)
        seed = random.randrange(2**32)
        thrower = harness.BIN.parent / "tests/mutated_messages"
        throwers = [self.start(thrower, self.endpoints[0], 2000, seed + i, flood.join_as(join, 1 + i).hex())
                    for i in range(fools)]
        self.assert_succeed(throwers)
        # A Leave may be among what they throw, and may say that its node has finished.
        ends = {how: rf"node (\d+) {how}: " for how in ("lost", "has finished early")}
        with harness.FolderWatch(self.run_dir) as watch:
            while True:
                log = (self.run_dir / "server.log").read_text(encoding="utf-8")
                gone = {how: set(re.findall(line, log)) for how, line in ends.items()}
                if sum(map(len, gone.values())) >= fools:
                    break
                watch.wait(f"the ends of {fools} nodes, seed {seed}")
        server.send(signal.SIGTERM)
        self.assertEqual(server.end(), 1, (seed, server.errors()))
        self.assertEqual(node.end(), 1, (seed, node.errors()))
        summary = self.summary()
        self.assertEqual((summary["status"], summary["reason"], summary["lost_nodes"]),
                         ("stopped", "stopped by a signal", len(gone["lost"])), f"seed {seed}")
        self.assertEqual(set.union(*gone.values()), {str(1 + i) for i in range(fools)}, f"seed {seed}")
        self.assertGreater(summary["iterations"], 0)


if __name__ == "__main__":
    if "--messages" in sys.argv:
        at = sys.argv.index("--messages")
        if at + 1 >= len(sys.argv) or not re.fullmatch(r"[1-9]\d*", sys.argv[at + 1]):
            sys.exit("--messages: expected how many, 1 or more")
        MESSAGES = int(sys.argv[at + 1])
        del sys.argv[at:at + 2]
    harness.main()
