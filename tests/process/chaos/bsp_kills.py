#!/usr/bin/env python3
"""BSP runs whose processes are killed (SIGKILL) at random moments and resumed: each ends in the bits of a run that nobody disturbs.

    bsp_kills.py BIN [--runs 30] [--seed 1] [--iterations 8000]

Each run has one or two shards, an optimizer, and nodes that end with their servers or wait for others
(cluster.reconnect_timeout). Once or twice, after a time of training that the seed says, a server of it is killed, or all of them,
or all processes. When those that end of it have ended, all servers, and the nodes that are gone, are started again with --resume,
or from the beginning (--force) where no checkpoint was whole yet.

Prints a line for each run: what was killed, when, and what it went on from. Exit status 1 when a run did not end well, with each
iteration done once and the bits of its model those of a run of the same configuration that was left in peace. What a failed run has
left is kept, and its folder printed. Exit status 2: wrong usage.
"""
import json
import pathlib
import re
import signal
import sys
import tempfile
import time

import small_runs
from harness import PROGRESS  # of tests/process/daemons, which small_runs has put on the path

ITERATIONS = 8000  # of a run, when not said
LONGEST_WAIT = 1.5  # seconds of training before a kill; a run has some two of them, so that some come as it ends
OPTIMIZERS = {
    "sgd": (),
    "momentum": ("train.optimizer.kind=momentum",),
    "adam": ("train.optimizer.kind=adam", "train.optimizer.lr=0.001"),
}
RUN = ("sync.policy=bsp", "checkpoint.every_clocks=20", "cluster.lease=2s")
WAITS = "waiting up to 60 s for servers that go on with the run"
KILLED = ("a server", "all servers", "everything")


class Run(small_runs.Daemons):
    """A run, its servers by shard and its nodes: those processes that are the last of each."""

    def __init__(self, programs, folder, data, shards, iterations, printed):
        super().__init__(programs, folder, data, seed=3, shards=shards, iterations=iterations, printed=(*RUN, *printed))
        self.servers = [self.server(k) for k in range(shards)]
        self.nodes = [self.node(i) for i in range(2)]

    def end_well(self):
        """What is wrong with how it has ended."""
        wrong = small_runs.ended_otherwise([*self.servers, *self.nodes])
        summary = self.summary()
        came_to = (summary.get("status"), summary.get("iterations"), summary.get("lost_nodes"))
        return wrong if came_to == ("ok", self.iterations, 0) else [*wrong, f"it came to {came_to}"]

    def summary(self):
        path = self.run_dir / "summary.json"
        return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}

    def model(self):
        return (self.run_dir / "model.bin").read_bytes()

    def kill(self, what, shard):
        """Kills, and waits until all others have ended of it, too, or wait for servers that go on."""
        harmed = {"a server": [self.servers[shard]], "all servers": self.servers, "everything": self.servers + self.nodes}[what]
        output = [node.lines_printed() for node in self.nodes]
        for program in harmed:
            if program.process.poll() is None:
                program.send(signal.SIGKILL)
        for server in self.servers:
            server.end()
        for node, before in zip(self.nodes, output):
            if node.line_or_end(WAITS, before) is None:
                node.end()

    def is_over(self):
        return self.summary().get("status") == "ok"

    def go_on(self):
        """Starts again what has ended."""
        if any(self.run_dir.glob("checkpoint/*/manifest")):
            how = "--resume"
        else:  # nothing to go on from: nodes that wait for that wait in vain
            how = "--force"
            for node in self.nodes:
                node.process.kill()
                node.end()
        self.servers = [self.server(k, how) for k in range(len(self.servers))]
        self.nodes = [node if node.process.poll() is None else self.node(i, how) for i, node in enumerate(self.nodes)]
        return how


class Calm:
    """The bits of runs that nobody disturbs, each made once."""

    def __init__(self, programs, iterations):
        self.programs, self.iterations, self.models = programs, iterations, {}

    def model(self, data, shards, optimizer):
        if (shards, optimizer) not in self.models:
            with tempfile.TemporaryDirectory(prefix="paceline-calm-") as folder:
                run = Run(self.programs, pathlib.Path(folder), data, shards, self.iterations, OPTIMIZERS[optimizer])
                try:
                    wrong = run.end_well()
                    if wrong:
                        raise AssertionError(f"a run that nobody has disturbed: {wrong}")
                    self.models[shards, optimizer] = run.model()
                finally:
                    run.end_all()
        return self.models[shards, optimizer]


def disturb(run, chosen):
    """Kills and goes on, as often as the seed says; prints it."""
    for n in range(chosen.choice([1, 1, 2])):
        what, shard = chosen.choice(KILLED), chosen.randrange(len(run.servers))
        wait = chosen.uniform(0, LONGEST_WAIT)
        if n == 0 or what != "everything":  # else it may die as it resumes
            run.servers[0].line_or_end(PROGRESS.pattern)
        time.sleep(wait)  # the moment is what is tested
        run.kill(what, shard)
        print(f"{what} after {wait:.2f} s, ", end="", flush=True)
        if run.is_over():
            print("over before that, ", end="")
            return
        print("from the beginning, " if run.go_on() == "--force" else "", end="")


def one_run(calm, folder, data, chosen):
    shards, optimizer = chosen.choice([1, 2]), chosen.choice(list(OPTIMIZERS))
    reconnect = chosen.choice([(), ("cluster.reconnect_timeout=60s",)])
    print(f"{shards} shards, {optimizer}, nodes {'wait' if reconnect else 'end'}: ", end="", flush=True)
    run = None
    try:
        expected = calm.model(data, shards, optimizer)
        run = Run(calm.programs, folder, data, shards, calm.iterations, (*OPTIMIZERS[optimizer], *reconnect))
        disturb(run, chosen)
        wrong = [] if run.is_over() else run.end_well()
        if not wrong and run.model() != expected:
            wrong = ["other bits than those of a run in peace"]
        if not wrong and "resumed_from_version" in run.summary():
            print(f"the last time from version {run.summary()['resumed_from_version']} on: ", end="")
    except AssertionError as error:
        wrong = [re.sub(r"\s+", " ", str(error))]
    finally:
        if run:
            run.end_all()
    return wrong


def main(words=None):
    arguments = small_runs.parser(__doc__, runs=30, iterations=ITERATIONS).parse_args(words)
    calm = Calm(arguments.bin, arguments.iterations)
    return small_runs.run_all(arguments, lambda folder, data, chosen: one_run(calm, folder, data, chosen),
                              "ended in the bits of one that nobody disturbed")


if __name__ == "__main__":
    sys.exit(main())
