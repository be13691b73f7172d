#!/usr/bin/env python3
"""Workers that sum their gradients by all-reduce, through servers, and not at all: what the exchange costs a step.

    cmake --build build/release --target benchmarks
    tests/bench/allreduce_training.py [--bin build/release/bin] [--rounds 15] [--steps 30] [--model cifar_cnn] [--workers 2]
                                      [--json FILE] [key=value …]

Without any exchange: bench_bare_loop once for each worker, side by side, with the same loader, network, mini-batch and Adam. The three
take turns, and who goes first changes. Which algorithms are taken was measured before, as in a run that goes on. A figure is the median
of a run's steps, from grant to grant of worker 0.0, of the bare loops the slower one's; ratios are medians over the rounds:
`of_bare`, the bare loops' time over that of the all-reduce (0.97 asked), and `of_servers` (1 asked). Exit status 1 below them.
`…_whole`: the same of whole runs, in which all wait for whoever's core was taken by something else; not judged. Runs with
daemons are traced, and the bare loops are not, so what a trace costs (trace_cost.py) is counted as the exchange's. Overrides
are for runs with daemons.
"""
import argparse
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from processes import fail, run_all, say

CONFIG = """\
run: {{out: {out}}}
cluster: {{nodes: {nodes}, threads_per_node: 1, endpoints: ["{endpoint}"]}}
sync: {{policy: bsp}}
train:
  model: {model}
  batch_size: {batch}
  total_iterations: {steps}
  eval_samples: 128  # the final evaluation, after the clock has stopped
  optimizer: {{kind: adam, lr: 0.001}}
data: {{kind: synthetic, path: {data}}}
"""
ASKED = {"of_bare": 0.97, "of_servers": 1.0}


def config_of(args, nodes, folder, endpoint):
    file = folder / "config.yaml"
    file.write_text(CONFIG.format(out=folder, nodes=nodes, endpoint=endpoint, model=args.model, batch=args.batch,
                                  steps=args.steps * nodes, data=args.data), encoding="utf-8")
    return file


def slower(steps):
    """The worker's that took longer: a step's median, and the whole run's mean, in seconds."""
    return {"step": max(step for step, _ in steps), "whole": max(whole for _, whole in steps)}


def bare(args, folder):
    config = config_of(args, 1, folder, f"ipc://{folder}/socket")
    run_all([[args.bin / "bench_bare_loop", config, folder / f"parameters{n}"] for n in range(args.workers)], folder)
    output = [json.loads((folder / f"stdout{n}").read_text()) for n in range(args.workers)]
    return slower([(1e-3 * one["p50_ms"], one["wall_seconds"] / args.steps) for one in output])


def daemons(args, folder, endpoint, *overrides):
    config = config_of(args, args.workers, folder, endpoint)
    given = ["run.trace=true", *overrides, *args.overrides]
    run_all([[args.bin / "paceline-server", config, *given],
             *([args.bin / "paceline-worker", config, "--node", str(n), *given] for n in range(args.workers))], folder)
    summary = json.loads((folder / "summary.json").read_text())
    if summary["status"] != "ok" or summary["iterations"] != args.steps * args.workers:
        fail(f"status {summary['status']}, {summary['iterations']} iterations")
    grants = sorted(event["ts"] for event in json.loads((folder / "trace.json").read_text())["traceEvents"]
                    if event["name"] == "grant" and event["args"]["worker"] == "0.0")
    step = statistics.median(1e-6 * (end - begin) for begin, end in itertools.pairwise(grants))
    return slower([(step, summary["wall_seconds"] / args.steps)])


def allreduce(args, folder):
    # Over tcp the nodes meet; between nodes of one machine sums lie in shared memory.
    return daemons(args, folder, f"tcp://127.0.0.1:{args.port}", "exchange.kind=allreduce", f"exchange.measured={args.measured}")


def servers(args, folder):
    return daemons(args, folder, f"ipc://{folder}/socket")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("overrides", nargs="*")
    parser.add_argument("--bin", type=Path, default=Path(__file__).resolve().parents[2] / "build/release/bin")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--steps", type=int, default=30, help="of each worker")
    parser.add_argument("--model", default="cifar_cnn")
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--port", type=int, default=45117)
    parser.add_argument("--json", type=Path, help="append the line to this file, too")
    args = parser.parse_args()
    loops = {"bare": bare, "allreduce": allreduce, "servers": servers}
    rounds = []
    with tempfile.TemporaryDirectory(prefix="paceline.") as made:
        args.data, args.measured = Path(made) / "data", Path(made) / "algorithms"
        subprocess.run([args.bin / "paceline", "data", "synthesize", "--out", args.data, "--train", "5000", "--test", "1000"],
                       check=True, stdout=subprocess.DEVNULL)
        with tempfile.TemporaryDirectory(prefix="paceline.") as folder:
            allreduce(args, Path(folder))  # it measures which algorithms to take, and keeps that for the others
        for turn in range(args.rounds):
            one = {}
            for name in list(loops)[:: 1 if turn % 2 == 0 else -1]:
                with tempfile.TemporaryDirectory(prefix="paceline.") as folder:
                    one[name] = loops[name](args, Path(folder))
            rounds.append(one)
    ratios = {f"of_{name}{suffix}": sorted(one[name][of] / one["allreduce"][of] for one in rounds)
              for of, suffix in (("step", ""), ("whole", "_whole")) for name in ("bare", "servers")}
    result = {"benchmark": "allreduce_training", "model": args.model, "batch": args.batch, "workers": args.workers,
              "steps": args.steps, "rounds": args.rounds,
              **{f"{name}_ms": round(1e3 * statistics.median(one[name]["step"] for one in rounds), 2) for name in loops},
              **{name: round(statistics.median(all_), 3) for name, all_ in ratios.items()},
              **{f"{name}_range": [round(all_[0], 3), round(all_[-1], 3)] for name, all_ in ratios.items()},
              "load": round(os.getloadavg()[0], 1)}
    say(result, args.json)
    return 1 if any(result[name] < asked for name, asked in ASKED.items()) else 0


if __name__ == "__main__":
    sys.exit(main())
