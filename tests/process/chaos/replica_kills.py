#!/usr/bin/env python3
"""Runs with two servers of each shard, of which one is killed, or stopped for longer than a lease, at a random moment: each goes
to its end as if nothing had happened.

    replica_kills.py BIN [--runs 20] [--seed 1] [--iterations 8000]

Each run has a policy, a number of shards, something besides (checkpoints, evaluations, a trace, an encoding …), and a moment and
a fault that the seed says: the first server of a shard, or of all, or the second one is killed (SIGKILL), or the first one is
stopped (SIGSTOP) until its second one serves, and goes on then, or the first one is killed and comes back, after which the
second one is killed. Needs etcd.

Prints a line for each run. Exit status 1 when a run did not end with status ok and each iteration done once, none of them lost;
when a daemon that nobody had harmed ended otherwise than it should, or did not end. What a failed run has left is kept, and its
folder printed. Exit status 2: wrong usage.
"""
import json
import pathlib
import re
import shutil
import signal
import sys
import tempfile
import time

import small_runs
import etcd  # of tests/process/daemons, which small_runs has put on the path
from harness import PROGRESS, FolderWatch, Program

ITERATIONS = 8000  # of a run, when not said
LONGEST_WAIT = 3.0  # seconds of training before the fault; a run has some 3 of them, so that some come as it ends
POLICIES = {
    "bsp": [],
    "bsp mean adam": ["sync.combine=mean", "train.optimizer.kind=adam", "train.optimizer.lr=0.001"],
    "ssp": ["sync.threshold=3"],
    "ssp mean": ["sync.threshold=3", "sync.combine=mean"],
    "ssp eager": ["sync.threshold=2", "sync.apply=eager"],
    "dtssp": [],
    "asp": ["sync.refresh_clocks=1"],
}
BESIDES = {
    "nothing": [],
    "checkpoints": ["checkpoint.every_clocks=100"],
    "evaluations": ["train.eval_every_clocks=100"],
    "trace": ["run.trace=true"],
    "fp16": ["cluster.gradient_encoding=fp16"],
    "int8": ["cluster.gradient_encoding=int8"],
    "no shared memory": ["cluster.shared_memory=off"],
}
FAULTS = ("one first", "one first", "all first", "one second", "stopped", "comes back", "comes back")
OF_RETURNS = ["checkpoint.every_clocks=100", "cluster.reconnect_timeout=60s"]


class Run(small_runs.Daemons):
    """The daemons of one run."""

    def __init__(self, programs, folder, data, endpoint, policy, besides, shards, seed, iterations, returns):
        printed = [f"sync.policy={policy.split()[0]}", "cluster.replicas=2", f'cluster.etcd=["{endpoint}"]', "cluster.lease=3s",
                *POLICIES[policy], *BESIDES[besides], *(OF_RETURNS if returns else [])]
        super().__init__(programs, folder, data, seed, shards, iterations, replicas=2, printed=printed)
        self.servers = [[self.server(k, "--replica", r) for r in range(2)] for k in range(shards)]
        self.nodes = [self.node(i) for i in range(2)]

    def come_back(self, shard):
        """The first server of the shard, killed; then the second. Where the run ends before that it does so by itself."""
        first, second = self.servers[shard]
        first.send(signal.SIGKILL)
        second.wait_for_line("is served by this replica from here on")
        self.servers[shard][0] = self.server(shard, "--replica", 0, "--resume")
        authority = self.folder / ("run" if shard > 0 else "run.replica1")
        with FolderWatch(authority) as watch:
            while not self.goes_on(authority):
                watch.wait("training that goes on, or the end of the run")
        if second.process.poll() is None:
            second.send(signal.SIGKILL)
        return [first, second, self.servers[shard][0]]

    @staticmethod
    def goes_on(run_dir):
        text = (run_dir / "server.log").read_text(encoding="utf-8")
        return "training goes on at version" in text or "the run is over: ok" in text

    def harm(self, fault, shard):
        """Whom it was done to: those need not end well."""
        if fault == "comes back":
            return self.come_back(shard)
        if fault == "stopped":
            first, second = self.servers[shard]
            first.send(signal.SIGSTOP)
            second.wait_for_line("is served by this replica from here on")
            first.send(signal.SIGCONT)
            return [first]
        harmed = {"one first": [self.servers[shard][0]], "one second": [self.servers[shard][1]],
                  "all first": [servers[0] for servers in self.servers]}[fault]
        for program in harmed:
            if program.process.poll() is None:
                program.send(signal.SIGKILL)
            else:
                print("over before that, ", end="")
        return harmed

    def wrong(self, harmed):
        """What is wrong with how it ended."""
        wrong = small_runs.ended_otherwise([program for program in self.started if program not in harmed])
        for program in harmed:
            program.end()
        results = [self.folder / name / "summary.json" for name in ("run", "run.replica1")]
        summaries = [json.loads(path.read_text(encoding="utf-8")) for path in results if path.exists()]
        came_to = [(s["status"], s["iterations"], s["iterations_lost"], s["lost_nodes"]) for s in summaries]
        return wrong if ("ok", self.iterations, 0, 0) in came_to else [*wrong, f"it came to {came_to}"]


def one_run(programs, folder, data, endpoint, iterations, chosen):
    policy, besides, shards = chosen.choice(list(POLICIES)), chosen.choice(list(BESIDES)), chosen.choice([1, 2])
    fault, shard, wait = chosen.choice(FAULTS), chosen.randrange(shards), chosen.uniform(0, LONGEST_WAIT)
    if fault in ("stopped", "comes back"):
        wait /= 3  # it is to be there yet
    print(f"{policy}, {besides}, {shards} shards: {fault} ({shard}) after {wait:.2f} s: ", end="", flush=True)
    run = Run(programs, folder, data, endpoint, policy, besides, shards, chosen.randrange(1 << 30), iterations,
              fault == "comes back")
    try:
        run.servers[0][0].wait_for_line(PROGRESS.pattern)
        time.sleep(wait)  # the moment is what is tested
        wrong = run.wrong(run.harm(fault, shard))
    except AssertionError as error:
        wrong = [re.sub(r"\s+", " ", str(error))]
    finally:
        run.end_all()
    return wrong


def main(words=None):
    parser = small_runs.parser(__doc__, runs=20, iterations=ITERATIONS)
    arguments = parser.parse_args(words)
    if shutil.which("etcd") is None:
        parser.error("there is no etcd here (scripts/install_deps.sh --etcd)")
    client, peer = (f"http://127.0.0.1:{port}" for port in etcd.free_ports(2))
    with tempfile.TemporaryDirectory(prefix="paceline-etcd-") as folder:
        decides = Program(*etcd.command(pathlib.Path(folder), client, peer))
        try:
            return small_runs.run_all(
                arguments,
                lambda folder, data, chosen: one_run(arguments.bin, folder, data, client, arguments.iterations, chosen),
                "as if nothing had happened")
        finally:
            decides.process.kill()
            decides.end()


if __name__ == "__main__":
    sys.exit(main())
