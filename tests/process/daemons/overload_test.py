"""Floods of messages that are all of the right form, at the server of a run that trains: what they cost the others, and the
server's memory. See harness.py."""

import pathlib
import re
import signal
import statistics
import sys
import time

import flood
import harness
from harness import DaemonTest
from zmtp_peer import ZmtpPeer

# docs/RELIABILITY.md, "Overload", states these.
SLOWER_MAX = 10.0  # a round trip of somebody else, times as long as without the flood
ROUND_TRIP_OF = 2e-3  # seconds; shorter ones are counted as that long: scheduling of a busy machine
MEMORY_MAX = 8 << 20  # bytes that the server grows by, of each flood

FLOOD = 300_000  # messages that a flooder's socket has taken before its flood is over
FLOOD_SECONDS = 2.5  # or so long, for those that the server takes more slowly, but not before it has taken FLOOD_AT_LEAST
FLOOD_AT_LEAST = 30_000
LOG_LINES_MAX = 1000  # of the server's log, whatever it was flooded with: a flood is of more messages than that

ROUND_TRIPS = 200
PARAMETERS = 3072 * 10 + 10
PROBE, FIRST_FLOODER = 1, 2


class Overload(DaemonTest):
    """Node 0 trains, node 1 measures how fast the server answers it, the others flood."""

    FLOODS = (("heartbeats", "deaf"), ("reports", "reads"), ("reports", "deaf"), ("pulls", "reads"), ("pulls", "deaf"),
              ("exact", "reads"), ("exact", "deaf"), ("joins", "reads"), ("joins", "deaf"))

    def of_run(self, nodes):
        # Steps take 5 ms without computing: what is measured is the server.
        return (f"cluster.nodes={nodes}", "cluster.threads_per_node=1", "sync.policy=asp", "emulate.base_step=5ms",
                "cluster.shared_memory=off", "cluster.lease=300s")  # a flooder says nothing until it is its turn

    def resident(self, program, what="VmRSS"):
        for line in pathlib.Path(f"/proc/{program.pid}/status").read_text(encoding="ascii").splitlines():
            if line.startswith(what + ":"):
                return int(line.split()[1]) * 1024
        raise AssertionError(what)

    def forget_peak(self, program):
        """What it has now; VmHWM is the most that it has had since. Where the kernel does not forget, what it had at most so
        far: it grows by what it takes beyond that."""
        try:
            pathlib.Path(f"/proc/{program.pid}/clear_refs").write_text("5", encoding="ascii")
        except OSError:
            return self.resident(program, "VmHWM")
        return self.resident(program)

    def round_trips(self, peer):
        """How long each of some pulls of all parameters takes, in seconds."""
        took = []
        for i in range(ROUND_TRIPS):
            begin = time.monotonic()
            peer.send(b"\x32\x04\x08" + bytes([1 + i % 100]) + b"\x20\x01")
            floats = 0
            while floats < PARAMETERS:
                frames = flood.wait_for(peer, b"\x3a")
                floats += len(frames[1]) // 4
            took.append(time.monotonic() - begin)
        return took

    def round_trips_under(self, flooder, peer):
        """Those while it floods, and how many messages its socket has taken."""
        begin = time.monotonic()
        flooder.send(signal.SIGUSR1)
        took = []
        taken = 0
        while taken < FLOOD:
            took += self.round_trips(peer)
            taken = max([int(line.split()[1]) for line in flooder.errors() if line.startswith("taken ")], default=0)
            seconds = time.monotonic() - begin
            if seconds > harness.DEADLINE or (seconds > FLOOD_SECONDS and taken >= FLOOD_AT_LEAST):
                break
        self.assertGreaterEqual(taken, FLOOD_AT_LEAST)
        return took, taken

    def start_flooded(self, nodes):
        """A run of so many nodes, in which all but node 0 are ours: the server, node 0, and the probe."""
        overrides = self.of_run(nodes)
        join = flood.recorded_join(self, *overrides)
        server = self.server(0, *overrides)
        self.wait_for_log("server.log", "listens on")
        node = self.node(0, *overrides)
        peer = ZmtpPeer(self.endpoints[0])
        peer.send(flood.join_as(join, PROBE))
        flood.wait_for(peer, b"\x12")
        return server, node, peer, join

    def flooder(self, kind, manner, *join):
        """Has joined, if it has a join, and waits for SIGUSR1."""
        program = self.start(sys.executable, pathlib.Path(__file__).with_name("flood.py"), self.endpoints[0], kind, manner,
                             *(one.hex() for one in join))
        program.wait_for_line("ready")
        return program

    def test_floods_cost_the_others_little_and_the_server_no_memory(self):
        server, node, peer, join = self.start_flooded(FIRST_FLOODER + len(self.FLOODS))
        # A run begins when all its nodes are there.
        floods = [(f"{kind}, {manner}", self.flooder(kind, manner, flood.join_as(join, FIRST_FLOODER + i)))
                  for i, (kind, manner) in enumerate(self.FLOODS)]
        floods += [(f"a stranger's {kind}", self.flooder(kind, "deaf")) for kind in ("heartbeats", "pulls")]
        server.wait_for_line(harness.PROGRESS.pattern)
        quiet = statistics.median(self.round_trips(peer))
        for what, flooder in floods:
            with self.subTest(what):
                memory = self.forget_peak(server)
                took, taken = self.round_trips_under(flooder, peer)
                flooder.send(signal.SIGTERM)
                self.assertEqual(flooder.end(), 0)
                grown = self.resident(server, "VmHWM") - memory
                median, longest = statistics.median(took), max(took)
                print(f"{what}: {taken} messages in {sum(took):.1f} s; a round trip {median * 1e3:.2f} ms (quiet "
                      f"{quiet * 1e3:.2f}), at most {longest * 1e3:.1f} ms; {grown / 1e6:.1f} MB more", file=sys.stderr)
                self.assertLess(median, SLOWER_MAX * max(quiet, ROUND_TRIP_OF))
                self.assertLess(grown, MEMORY_MAX)
        peer.send(b"\x7a\x00")  # Leave
        peer.close()
        server.send(signal.SIGTERM)
        self.assertEqual(server.end(), 1, server.errors())
        self.assertEqual(node.end(), 1, node.errors())
        summary = self.summary()
        self.assertEqual((summary["status"], summary["reason"]), ("stopped", "stopped by a signal"))
        self.assertGreater(summary["iterations"], 0)
        self.assertNotRegex("\n".join(summary["lost"]), "node 0:")
        why_lost = {int(of[1]): of[2] for of in (re.match(r"node (\d+): (.*)", line) for line in summary["lost"])}
        for i, (kind, manner) in enumerate(self.FLOODS):
            if kind == "joins":
                self.assertIn("it went on joining", why_lost.get(FIRST_FLOODER + i, "it was not lost"), (kind, manner))
            elif (kind, manner) == ("reports", "deaf"):
                self.assertIn("it does not read what it is sent", why_lost.get(FIRST_FLOODER + i, "it was not lost"))
        log = (self.run_dir / "server.log").read_text(encoding="utf-8")
        self.assertLess(log.count("\n"), LOG_LINES_MAX)


if __name__ == "__main__":
    harness.main()
