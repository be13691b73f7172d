#!/usr/bin/env python3
"""A long run with faults and checkpoints: memory and file descriptors of every process stay flat.

    soak.py BIN [--seconds 3600] [--faults 16] [key.path=value …]

Three nodes of two threads train over two shards, which save a checkpoint every few seconds; there is room for a fourth. FAULTS
times, evenly spread over the first third of the time, one of these happens, in turn: all servers are killed and started again
with --resume; so they are, and a node with them; a node is killed alone, and comes back; the fourth node joins late, or, where
it has, leaves in order (SIGTERM) and comes back. So whatever runs at the end has lived for two thirds of the time or more. Each
second the resident memory and the open descriptors of every process are looked at. Of the time after the last fault (before, a
shard has more where a node comes), without its first part, in which all is used for the first time, the last third must not have
more (medians) than the first but for MEMORY_MAX and DESCRIPTORS_MAX: in an hour a process that grows by more than 13 MB per hour
is found, one that grows less is not.

Prints a line for each process: how much its memory grew, at what rate, and by how much from one look to the next at most (one
that is as much as all of it is a burst, not a leak). Exit status 0: all flat and the run ended in
order; 1: not; 2: wrong usage.
"""
import argparse
import json
import pathlib
import re
import shutil
import signal
import statistics
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "daemons"))
import harness  # noqa: E402 (after the path is known)

MEMORY_MAX = 4 << 20  # bytes; a long run may take 0.6 MB for good (memory_test), a longest burst so far a little more
DESCRIPTORS_MAX = 2
WARM_UP = 0.25  # of the time after the last fault is not judged
SAMPLES_MIN = 12  # fewer say nothing
NODES, NODES_MAX, SHARDS = 3, 4, 2

CONFIG = """\
run: {{seed: 3, out: {folder}/run}}
cluster:
  nodes: {{min: {nodes}, max: {most}}}
  threads_per_node: 2
  shards: {shards}
  endpoints: [{endpoints}]
  lease: 3s
  heartbeat: 500ms
  reconnect_timeout: 60s
sync: {{policy: ssp, threshold: 3}}
train:
  model: layers
  layers: [{{kind: flatten}}, {{kind: dense, out: 10}}]
  batch_size: 8
  total_iterations: 1000000000
checkpoint: {{every: 3s, keep: 2}}
data: {{kind: synthetic, path: {folder}/data}}
"""


class Watched:
    """A daemon, and what it had in use, second by second."""

    def __init__(self, name, *command):
        self.name = name
        self.program = harness.Program(*command)
        self.sampled_at = []  # s, as time.monotonic() has it: when what follows was so
        self.resident = []  # bytes
        self.descriptors = []
        self.calm_from = None  # place of the first sample after the last fault; None: it did not live to see that

    def sample(self):
        process = pathlib.Path(f"/proc/{self.program.pid}")
        try:
            text = (process / "status").read_text(encoding="ascii")
            descriptors = len(list((process / "fd").iterdir()))
        except OSError:
            return
        for line in text.splitlines():
            if line.startswith("VmRSS:"):
                self.sampled_at.append(time.monotonic())
                self.resident.append(int(line.split()[1]) * 1024)
                self.descriptors.append(descriptors)

    def judge(self):
        """What is to be said of it, and whether it is flat."""
        def seconds(first, last=-1):
            return self.sampled_at[last] - self.sampled_at[first] if self.sampled_at[first:] else 0

        if self.calm_from is None:
            return f"{self.name}: {seconds(0):.0f} s, ended by a fault or left", True
        calm = len(self.resident) - self.calm_from
        if calm < SAMPLES_MIN:
            return f"{self.name}: {seconds(self.calm_from):.0f} s, too short to be judged", True
        warm = self.calm_from + int(calm * WARM_UP)
        third = (len(self.resident) - warm) // 3
        (memory, more_memory), (open_files, more_open) = (
            (first := statistics.median(of[warm:warm + third]), statistics.median(of[-third:]) - first)
            for of in (self.resident, self.descriptors))
        at_once = max(after - before for before, after in zip(self.resident[warm:], self.resident[warm + 1:]))
        flat = more_memory <= MEMORY_MAX and more_open <= DESCRIPTORS_MAX
        apart = seconds(warm + third // 2, -1 - third // 2)  # the middles of the two thirds
        per_hour = more_memory * 3600 / apart
        return (f"{self.name}: {seconds(self.calm_from):.0f} s after the last fault, {memory / 1e6:.1f} MB {more_memory / 1e6:+.2f} "
                f"({per_hour / 1e6:+.1f} per hour; {at_once / 1e6:+.2f} within a second at most), "
                f"{open_files:.0f} descriptors {more_open:+.0f}{'' if flat else '   GROWS'}"), flat


class Soak:
    def __init__(self, programs, folder, overrides):
        self.programs = programs
        self.overrides = overrides
        self.folder = folder
        self.config = folder / "soak.yaml"
        endpoints = ", ".join(f'"ipc://{folder}/{k}"' for k in range(SHARDS))
        self.config.write_text(CONFIG.format(folder=folder, nodes=NODES, most=NODES_MAX, shards=SHARDS, endpoints=endpoints),
                               encoding="utf-8")
        self.ended = []
        self.servers = [self.server(k) for k in range(SHARDS)]
        self.nodes = [self.node(i) for i in range(NODES)]
        self.servers[0].program.wait_for_line(harness.PROGRESS.pattern)

    def server(self, shard, *arguments):
        name = f"shard {shard}{' (resumed)' if arguments else ''}"
        return Watched(name, self.programs / "paceline-server", self.config, *self.overrides, "--shard", shard, *arguments)

    def node(self, number, *arguments):
        name = f"node {number}{' (anew)' if arguments else ''}"
        return Watched(name, self.programs / "paceline-worker", self.config, *self.overrides, "--node", number, *arguments)

    def running(self):
        return [*self.servers, *self.nodes]

    def watch(self, seconds):
        """That long; fails when a process ends by itself."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for watched in self.running():
                if watched.program.process.poll() is not None:
                    raise AssertionError(f"{watched.name} has ended: {watched.program.errors()}")
                watched.sample()
            time.sleep(min(1.0, max(0.0, end - time.monotonic())))  # the rate of sampling

    def kill(self, *those):
        for watched in those:
            watched.program.send(signal.SIGKILL)
        for watched in those:
            watched.program.end()
        self.ended += those

    def fault(self, number):
        """One of the four kinds."""
        node, kind = number // 4 % NODES, number % 4
        if kind == 0:
            self.servers_die()
        elif kind == 1:
            self.servers_die(node)
        elif kind == 2:
            self.kill(self.nodes[node])
            self.come(node)
        else:
            if len(self.nodes) == NODES_MAX:
                self.leave(NODES)
            self.come(NODES)

    def servers_die(self, node=None):
        """With a node, or alone; and come back."""
        self.kill(*self.servers, *([] if node is None else [self.nodes[node]]))
        self.servers = [self.server(k, "--resume") for k in range(SHARDS)]
        if node is not None:
            self.nodes[node] = self.node(node, "--resume")
        self.servers[0].program.wait_for_line(harness.PROGRESS.pattern)

    def leave(self, number):
        self.nodes[number].program.send(signal.SIGTERM)
        self.in_order(self.nodes[number])
        self.ended.append(self.nodes[number])

    @staticmethod
    def in_order(watched):
        """Waits for the end of a process that was stopped by a signal, or whose run was."""
        got = watched.program.end()
        if got != 1:
            raise AssertionError(f"{watched.name} ended with status {got}, expected 1: {watched.program.errors()}")

    def come(self, number):
        """A node while training goes on: until it takes part."""
        arrivals = re.compile(f"node {number} (is back|has come)")
        log = self.folder / "run/server.log"
        before = len(arrivals.findall(log.read_text(encoding="utf-8")))
        end = time.monotonic() + harness.DEADLINE
        self.nodes[number:number + 1] = [self.node(number, "--resume")]
        while len(arrivals.findall(log.read_text(encoding="utf-8"))) == before:
            if time.monotonic() > end:
                raise AssertionError(f"node {number} takes no part within {harness.DEADLINE} s: {self.nodes[number].program.errors()}")
            self.watch(0.2)

    def stop(self):
        """The orderly end; returns the summary."""
        self.servers[0].program.send(signal.SIGTERM)
        for watched in self.running():
            self.in_order(watched)
        self.ended += self.running()
        return json.loads((self.folder / "run/summary.json").read_text(encoding="utf-8"))

    def end_all(self):
        for watched in self.running():
            if watched.program.process.poll() is None:
                watched.program.process.kill()
                watched.program.process.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin", type=pathlib.Path, help="the folder of the programs")
    parser.add_argument("--seconds", type=float, default=3600)
    parser.add_argument("--faults", type=int, default=16)
    parser.add_argument("overrides", nargs="*", help="key.path=value, for every daemon")
    arguments = parser.parse_intermixed_args()
    if arguments.seconds < 30 or arguments.faults < 0:
        parser.error("expected 30 seconds or more, and no negative number of faults")
    programs = arguments.bin.resolve()
    folder = pathlib.Path(harness.temporary_folder())
    soak = None
    try:
        harness.subprocess.run([programs / "paceline", "data", "synthesize", "--out", folder / "data", "--train", "400",
                                "--test", "100"], check=True, stdout=harness.subprocess.DEVNULL)
        soak = Soak(programs, folder, arguments.overrides)
        for number in range(arguments.faults):
            soak.watch(arguments.seconds / 3 / arguments.faults)
            soak.fault(number)
        for watched in soak.running():
            watched.calm_from = len(watched.resident)
        soak.watch(arguments.seconds * (2 / 3 if arguments.faults > 0 else 1))
        summary = soak.stop()
    except AssertionError as error:
        print(f"soak: {error}", file=sys.stderr)
        sys.exit(1)
    finally:
        if soak is not None:
            soak.end_all()
        shutil.rmtree(folder, ignore_errors=True)
    flat = True
    for watched in soak.ended:
        line, is_flat = watched.judge()
        print(line)
        flat = flat and is_flat
    in_order = (summary["status"], summary["reason"]) == ("stopped", "stopped by a signal")
    print(f"{summary['iterations']} iterations, {summary.get('checkpoints', 0)} checkpoints, generation "
          f"{summary.get('generation', 1)}, {summary['lost_nodes']} nodes lost, "
          f"{summary.get('returned_nodes', 0)} came back, {summary.get('late_nodes', 0)} late, {summary['status']}: {summary['reason']}")
    sys.exit(0 if flat and in_order else 1)


if __name__ == "__main__":
    main()
