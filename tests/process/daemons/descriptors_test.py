"""Runs on a machine that lets a process open few files. See harness.py."""

import re
import signal
import socket

import harness
from harness import DaemonTest


class Descriptors(DaemonTest):
    """A need that is known is refused by number; connections never take what files need."""

    def limited(self, limits, *arguments):
        return self.start("prlimit", f"--nofile={limits}", harness.BIN / "paceline-server", self.config, *arguments)

    def test_a_run_that_needs_more_is_refused_by_number(self):
        server = self.limited("64:64", "cluster.nodes=24")
        self.assert_ends(server, 2, r"paceline-server: shard 0 of 24 nodes needs at least \d+ open files, and this process "
                                    r"may open 64 \(ulimit -Hn \d+\)")
        self.assertFalse(self.run_dir.exists())
        node = self.start("prlimit", "--nofile=20:20", harness.BIN / "paceline-worker", self.config, "--node", 0)
        self.assert_ends(node, 2, r"paceline-worker: a node of 1 servers needs at least \d+ open files, and this process may "
                                  r"open 20 \(ulimit -Hn \d+\)")
        doctor = self.start("prlimit", "--nofile=64:64", harness.BIN / "paceline", "doctor", self.config, "--shard", 0,
                            "cluster.nodes=24")
        self.assertEqual(doctor.end(), 1)
        self.assertRegex(doctor.output(), r"FAILED +open files +a process may open 64 files, at least \d+ are needed")

    def test_the_soft_limit_is_raised_to_the_hard_one(self):
        server = self.limited("16:4000")
        self.wait_for_log("server.log", "listens on")
        with open(f"/proc/{server.pid}/limits", encoding="ascii") as limits:
            self.assertRegex(limits.read(), r"Max open files +4000 +4000 ")

    def test_what_connections_do_not_get_is_there_for_checkpoints_and_the_model(self):
        refused = self.limited("8:8")
        self.assertEqual(refused.end(), 2)
        needed = re.search(r"at least (\d+) open files", refused.errors()[0])[1]
        server = self.limited(f"{needed}:{needed}")
        nodes = [self.node(i) for i in range(2)]
        server.wait_for_line(harness.PROGRESS.pattern)
        strangers = []
        for _ in range(2 * int(needed)):
            strangers.append(socket.socket(socket.AF_UNIX))
            strangers[-1].connect(self.endpoints[0].removeprefix("ipc://"))
        for stranger in strangers:  # nearly all are sent away, whatever else the server does; the others stay for now
            stranger.settimeout(harness.DEADLINE)
        self.assertGreater(sum(self.is_sent_away(stranger) for stranger in strangers[:int(needed)]), 0)
        printed = server.lines_printed()
        server.send(signal.SIGUSR2)
        server.line_or_end("asked for a checkpoint", after=printed)
        self.wait_for_log("server.log", "is written: ")
        server.send(signal.SIGTERM)
        self.assertEqual([program.end() for program in [server, *nodes]], [1, 1, 1], server.errors())
        self.assertEqual((self.summary()["status"], self.summary()["lost_nodes"]), ("stopped", 0))
        self.assertTrue((self.run_dir / "model.bin").exists())
        for stranger in strangers:
            stranger.close()

    @staticmethod
    def is_sent_away(stranger):
        """Whether its connection ends; ZeroMQ's greeting comes first."""
        try:
            while stranger.recv(4096):
                pass
        except ConnectionError:
            pass
        return True


if __name__ == "__main__":
    harness.main()
