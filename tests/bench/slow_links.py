#!/usr/bin/env python3
"""Rounds of local steps with real daemons over slow links: what the exchange costs, and what the formula says of it.

    cmake --build build/release --target paceline-server paceline-worker
    tests/bench/slow_links.py CIFAR10_DIR [--bin build/release/bin] [--nodes 4] [--mbit 100] [--server-mbit 100]
                              [--iterations 400] [--target 0.6] NAME[:KEY=VALUE,...] ...

The server and each node stand in a network namespace of their own, on one bridge, with links whose both directions are
limited (tc, tbf). They share the machine's cores, so a mini-batch takes as long as these allow. Each NAME is one run of
configs/sparknet.yaml with those settings; --iterations is rounded up to whole rounds of all nodes.

    tests/bench/slow_links.py data/cifar10 bsp:train.local_steps=1 averaged:train.local_steps=10
    tests/bench/slow_links.py data/cifar10 --server-mbit 400 \\
        hidden:sync.policy=ssp,sync.threshold=1,exchange.hidden=true \\
        fragments:sync.policy=ssp,sync.threshold=1,exchange.hidden=true,exchange.fragments=5

For each run a line: seconds; MB that nodes have pushed; the rounds of one node; `step_ms`, a mini-batch with all but its
exchange; `predicted`: rounds times (local steps x mini-batch + exchange), as `paceline speedup --measured` has it (but by all rounds), both as
the first run of the command has them, and `off`, by how much that misses; `adds`: what a worker's time has of exchange and waiting, as a share of the
rest; `peak_up` and `peak_down`: the most bytes that went through the server's link in any tenth of a round, as a multiple
of the mean: 10 where all leave at once, 1 where they are spread evenly; seconds to --target, where that was reached.
"""
import argparse
import csv
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
INSIDE = "--inside"
EXCHANGE = ("PS_APPLY_GRADS", "PS_PARAM", "BARRIER", "STEP")
LIMIT_S = 3600
# A queue of at most 50 ms, as a switch has.
LATENCY = "50ms"


def enter_namespaces():
    """In fresh ones, which end with this process: mounts and cables need no cleaning up."""
    if INSIDE in sys.argv:
        sys.argv.remove(INSIDE)
        return
    os.execvp("unshare", ["unshare", "--map-root-user", "--net", "--mount", sys.executable, *sys.argv, INSIDE])


def run(*words):
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout


def limit(namespace, device, mbit):
    inside = ["nsenter", f"--net=/run/netns/{namespace}"] if namespace else []
    run(*inside, "tc", "qdisc", "add", "dev", device, "root", "tbf", "rate", f"{mbit}mbit", "burst", "64kb", "latency", LATENCY)


def lay_cables(nodes, mbit, server_mbit):
    run("mount", "-t", "tmpfs", "none", "/run")
    run("ip", "link", "add", "bridge0", "type", "bridge")
    run("ip", "link", "set", "bridge0", "up")
    for i, name in enumerate(["server"] + [f"node{k}" for k in range(nodes)]):
        rate = mbit if i else server_mbit
        run("ip", "netns", "add", name)
        run("ip", "link", "add", f"port{i}", "type", "veth", "peer", "name", "cable", "netns", name)
        run("ip", "link", "set", f"port{i}", "master", "bridge0", "up")
        run("ip", "-n", name, "addr", "add", f"10.78.0.{i + 1}/24", "dev", "cable")
        run("ip", "-n", name, "link", "set", "cable", "up")
        run("ip", "-n", name, "link", "set", "lo", "up")
        limit(name, "cable", rate)      # what it sends
        limit(None, f"port{i}", rate)   # what it is sent


class Traffic(threading.Thread):
    """What has gone through the server's port so far, some hundred times a second: (seconds, bytes up, bytes down)."""

    def __init__(self):
        super().__init__(daemon=True)
        self.samples, self.over = [], threading.Event()

    def run(self):
        while not self.over.wait(0.004):
            with open("/proc/self/net/dev", encoding="ascii") as file:
                port = next(line for line in file if line.strip().startswith("port0:")).split(":")[1].split()
            self.samples.append((time.monotonic(), int(port[8]), int(port[0])))

    def peaks(self, round_seconds):
        """The fullest tenth of a round, by the mean one, each way: without the first fifth of the bytes and the last tenth."""
        self.over.set()
        self.join()
        found = []
        for way in (1, 2):
            bytes_at = [sample[way] for sample in self.samples]
            begin, end = bytes_at[0], bytes_at[-1]
            middle = [s for s in self.samples if begin + 0.2 * (end - begin) < s[way] < begin + 0.9 * (end - begin)]
            if len(middle) < 2:
                found.append(None)
                continue
            most, first = 0, 0
            for sample in middle:
                while sample[0] - middle[first][0] > round_seconds / 10:
                    first += 1
                most = max(most, sample[way] - middle[first][way])
            mean = (middle[-1][way] - middle[0][way]) * round_seconds / 10 / (middle[-1][0] - middle[0][0])
            found.append(round(most / mean, 2))
        return found


def first_time(curve, target):
    with open(curve, encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if row["test_accuracy"] and float(row["test_accuracy"]) >= target:
                return float(row["seconds"])
    return None


def times_of(summary):
    """Seconds of a mini-batch and of an exchange, as measured_times() of sweep/speedup.h has them, but of all rounds."""
    seconds = {phase: of["total_seconds"] for phase, of in summary["phases"].items()}
    exchange = sum(seconds.get(phase, 0.0) for phase in EXCHANGE)
    return ((sum(seconds.values()) - exchange) / summary["phases"]["COMPUTE_GRADS"]["count"],
            exchange / summary["phases"]["PS_APPLY_GRADS"]["count"])


def measure(options, folder, name, settings, first):
    """A run; the seconds of its mini-batches and exchanges."""
    steps = int(settings.get("train.local_steps", 10))
    round_of_all = steps * options.nodes
    iterations = -(-options.iterations // round_of_all) * round_of_all
    out = folder / name
    overrides = {"run.out": out, "data.path": options.data, "cluster.nodes": options.nodes,
                 "cluster.endpoints": "[tcp://10.78.0.1:5555]", "cluster.shared_memory": "off", "security.allow_insecure": "true",
                 "train.total_iterations": iterations,
                 "train.eval_every_clocks": max(1, options.evaluate_every // steps) if options.target else "null",
                 **({"run.target_accuracy": options.target} if options.target else {}), **settings}
    words = [str(options.config), *(f"{key}={value}" for key, value in overrides.items())]
    commands = [("server", "paceline-server", ())] + [(f"node{k}", "paceline-worker", ("--node", str(k))) for k in range(options.nodes)]
    traffic = Traffic()
    traffic.start()
    running = [subprocess.Popen(["nsenter", f"--net=/run/netns/{where}", options.bin / program, *words, *more])
               for where, program, more in commands]
    try:
        for process in running:
            if process.wait(LIMIT_S) != 0:
                sys.exit(f"{process.args} ended with {process.returncode}")
    finally:
        for process in running:
            if process.poll() is None:
                process.kill()
    summary = json.loads((out / "summary.json").read_text(encoding="utf-8"))
    step, exchange = times_of(summary)
    rounds = summary["iterations"] / round_of_all
    of_step, of_exchange = first or (step, exchange)
    predicted = rounds * (steps * of_step + of_exchange)
    peak_up, peak_down = traffic.peaks(summary["wall_seconds"] / rounds)
    print(json.dumps({"run": name, "seconds": round(summary["wall_seconds"], 2), "iterations": summary["iterations"],
                      "pushed_mb": round(summary["bytes_pushed"] / 1e6, 2), "rounds": rounds, "step_ms": round(1e3 * step, 1),
                      "exchange_ms": round(1e3 * exchange, 1), "predicted": round(predicted, 2),
                      "off": round(predicted / summary["wall_seconds"] - 1, 4), "adds": round(exchange / (steps * step), 4),
                      "peak_up": peak_up, "peak_down": peak_down,
                      "test_accuracy": summary["test_accuracy"],
                      "to_target": first_time(out / "curve.csv", options.target) if options.target else None}), flush=True)
    return step, exchange


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path, metavar="CIFAR10_DIR")
    parser.add_argument("runs", nargs="+", metavar="NAME[:KEY=VALUE,...]")
    parser.add_argument("--bin", type=Path, default=ROOT / "build/release/bin")
    parser.add_argument("--config", type=Path, default=ROOT / "configs/sparknet.yaml")
    parser.add_argument("--nodes", type=int, default=4)
    parser.add_argument("--mbit", type=float, default=100)
    parser.add_argument("--server-mbit", type=float, default=100)
    parser.add_argument("--iterations", type=int, default=400)
    parser.add_argument("--evaluate-every", type=int, default=100, help="mini-batches of each node, with --target")
    parser.add_argument("--target", type=float)
    options = parser.parse_args()
    options.data, options.bin = options.data.resolve(), options.bin.resolve()
    lay_cables(options.nodes, options.mbit, options.server_mbit)
    folder = Path(tempfile.mkdtemp(prefix="paceline-slow-links-"))
    try:
        first = None
        for each in options.runs:
            name, _, settings = each.partition(":")
            times = measure(options, folder, name, dict(pair.split("=", 1) for pair in settings.split(",") if pair), first)
            first = first or times
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    enter_namespaces()
    main()
