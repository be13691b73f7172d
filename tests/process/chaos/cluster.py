"""A run of real daemons, and who looks after it: whatever ends before the run is over is started again with --resume, as an
operator or a service manager would do, until the run is over. It knows which ends somebody has caused, and keeps the others.

Servers are started again together, once all of them have ended; a node at once or after a while.
"""
import json
import os
import pathlib
import re
import signal
import time

import events
import harness  # on the path of chaos.py

NODES, SHARDS = 3, 2
LEASE = 3.0  # seconds
PROGRESS_WITHIN = 90.0  # seconds; a run that has not got further by then, counted from the last fault, hangs

CONFIG = """\
run: {{seed: 3, out: {folder}/run}}
cluster:
  nodes: {nodes}
  threads_per_node: 1
  shards: {shards}
  endpoints: [{endpoints}]
  lease: {lease:g}s
  heartbeat: 200ms
  start_timeout: 20s
  reconnect_timeout: 60s
sync: {{policy: dtssp, combine: mean}}
train:
  model: layers
  layers: [{{kind: conv, out: 24, kernel: 5, stride: 2}}, {{kind: relu}}, {{kind: pool, kernel: 2}}, {{kind: flatten}},
           {{kind: dense, out: 10}}]
  batch_size: 16
  total_iterations: {iterations}
  optimizer: {{kind: adam, lr: 0.001, schedule: {{kind: cosine, warmup_versions: 60}}}}
checkpoint: {{every_clocks: 20, keep: 2}}
data: {{kind: synthetic, path: {data}}}
"""
VERSION = re.compile(r"checkpoint of version (\d+) of generation (\d+) is written|training goes on at version (\d+)")


class Hang(Exception):
    """Nothing goes on."""


class Process:
    """A daemon in its place: node 1, or shard 0."""

    def __init__(self, name, program, log):
        self.name = name
        self.program = program
        self._log = log
        self._log_began = log.stat().st_size if log.exists() else 0
        self.harmed = False  # something has been done to it that may end it
        self.still = False  # it has been stopped, and not continued yet
        self.status = None  # once it has ended

    @property
    def runs(self):
        return self.status is None

    def has_joined(self):
        """Whether all servers have welcomed this process of a node, once or more."""
        return self._log.exists() and f" joined {SHARDS} server(s)".encode() in self._log.read_bytes()[self._log_began:]

    def send(self, number):
        if self.program.process.poll() is None:
            self.program.send(number)

    def descriptors(self):
        try:
            return len(os.listdir(f"/proc/{self.program.pid}/fd"))
        except OSError:
            return 0  # it has just ended


class Cluster:
    """The processes of one run in `folder`. Thread: the one that calls run()."""

    def __init__(self, programs, folder, data, iterations, overrides):
        self.programs, self.folder, self.overrides = programs, folder, overrides
        self.run_dir = folder / "run"
        self.run_dir.mkdir()
        self.config = folder / "chaos.yaml"
        endpoints = ", ".join(f'"ipc://{folder}/{k}"' for k in range(SHARDS))
        self.config.write_text(CONFIG.format(folder=folder, data=data, nodes=NODES, shards=SHARDS, endpoints=endpoints,
                                             lease=LEASE, iterations=iterations), encoding="utf-8")
        self.events = events.Events(self.run_dir / "server.log")
        self.began = time.monotonic()
        self.furthest = (0, self.began)  # the highest version, and when it was reached, or a fault came after it
        self.version = self.generation = 0
        self.back = 0.0  # leases until what ends now is started again
        self.on_line = lambda line: None  # of the authority's log, as it comes
        self.on_event = lambda: None  # after whatever has happened
        self.descriptors = {"server": [], "node": []}  # the most that one had, at one look after another
        self.ended = []  # processes
        self.unexplained = []  # ends of processes that nobody had harmed, in the middle of the run
        self.servers = [self._server(k) for k in range(SHARDS)]
        self.nodes = [self._node(i) for i in range(NODES)]

    # ---- what goes on

    def run(self):
        """Until the run is over and all have ended. Raises Hang."""
        while not self.over():
            rest = PROGRESS_WITHIN - (time.monotonic() - self.furthest[1])
            if rest <= 0:
                raise Hang(self._why_it_hangs())
            self.events.wait(rest, self._line)
            self.on_event()
        for node in self.nodes:
            node.send(signal.SIGCONT)
            if node.harmed:  # who stood still as the run ended waits for servers that go on (docs/RELIABILITY.md)
                node.send(signal.SIGTERM)
            if node.runs:
                self._end_of(node)  # fails where that takes too long

    def over(self):
        return all(server.status == 0 for server in self.servers)

    def is_whole(self):
        """Everybody runs, and nobody stands still."""
        return all(process.runs and not process.still for process in self.servers + self.nodes)

    def seconds(self):
        return time.monotonic() - self.began

    def log(self, text):
        print(f"{self.seconds():7.1f} s  {text}", flush=True)

    def disturbed(self):
        """A fault has come: from now on it has its time to get further."""
        self.furthest = (self.furthest[0], time.monotonic())

    def count_descriptors(self):
        """How many descriptors everybody has."""
        for role, processes in (("server", self.servers), ("node", self.nodes)):
            self.descriptors[role].append(max(process.descriptors() for process in processes))

    def hold(self, process, seconds):
        """It stands still for that long."""
        process.send(signal.SIGSTOP)
        process.still = True
        self.events.after(seconds, lambda: self._go_on(process))

    def summary(self):
        return json.loads((self.run_dir / "summary.json").read_text(encoding="utf-8"))

    def end_all(self):
        """Whatever still runs is killed."""
        for process in self.servers + self.nodes:
            if process.program.process.poll() is None:
                process.program.process.kill()
                process.program.process.wait()
        self.events.close()

    # ---- one after another

    def _server(self, shard, *arguments):
        process = self._start(f"shard {shard}", f"server-{shard}.log", "paceline-server", "--shard", shard, *arguments)
        self.events.on_end(process.program, lambda: self._server_ended(process))
        return process

    def _node(self, number, *arguments):
        process = self._start(f"node {number}", f"worker-{number}.log", "paceline-worker", "--node", number, *arguments)
        self.events.on_end(process.program, lambda: self._node_ended(number, process))
        return process

    def _start(self, name, log, program, *arguments):
        program = harness.Program(self.programs / program, self.config, *arguments, *self.overrides)
        return Process(name, program, self.run_dir / log)

    def _line(self, line):
        if found := VERSION.search(line):
            self.version = int(found[1] or found[3])
            self.generation = int(found[2] or self.generation)
            if self.version > self.furthest[0]:
                self.furthest = (self.version, time.monotonic())
        self.on_line(line)

    @staticmethod
    def _go_on(process):
        process.still = False
        process.send(signal.SIGCONT)

    def _end_of(self, process):
        process.status = process.program.end()
        process.still = False
        self.ended.append(process)

    def _node_ended(self, number, process):
        self._end_of(process)
        if process.status == 0 or self.over():
            return
        if not process.harmed:
            what = f"{process.name} has ended by itself, {process.status}: {(process.program.errors() or ['?'])[-1]}"
            self.log(what)
            if process.has_joined():  # who is on its way in when servers die is to be started again (docs/RELIABILITY.md)
                self.unexplained.append(what)
        self.events.after(self.back * LEASE, lambda: self._start_node(number))

    def _start_node(self, number):
        if not self.over():
            self.nodes[number] = self._node(number, "--resume")

    def _server_ended(self, process):
        self._end_of(process)
        if any(server.runs for server in self.servers) or self.over():
            return
        self.events.after(self.back * LEASE, self._start_servers)

    def _start_servers(self):
        self.servers = [self._server(k, "--resume") for k in range(SHARDS)]

    def _why_it_hangs(self):
        for server in self.servers:
            server.send(signal.SIGCONT)
            server.send(signal.SIGUSR1)  # says what it waits for
        self.events.wait(5.0, self._line)
        output = [f"  {process.name}, {'running' if process.runs else process.status}: {process.program.errors()[-3:]}"
                for process in self.servers + self.nodes]
        return (f"version {self.version} of generation {self.generation}, nothing further than version {self.furthest[0]} within "
                f"{PROGRESS_WITHIN:g} s:\n" + "\n".join(output))


def log_tail(cluster, lines=20):
    """What the logs say at their ends."""
    return "\n".join(line for log in sorted(pathlib.Path(cluster.run_dir).glob("*.log"))
                     for line in [f"---- {log.name}", *log.read_text(encoding="utf-8", errors="replace").splitlines()[-lines:]])
