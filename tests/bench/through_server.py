#!/usr/bin/env python3
"""One worker through the server against the same loop without one: what the server and the way to it add to a step.

    cmake --build build/release --target benchmarks
    tests/bench/through_server.py [--bin build/release/bin] [--rounds 15] [--steps N] [--model M] [--policy P]
                                  [--transport shared] [--json FILE]

Through the server: paceline-server and paceline-worker, one node of one thread, nothing emulated, on one machine as a user
has it there (`transport`: shared, parameters and gradients in memory that both see; ZeroMQ over ipc carries the headers;
--transport ipc sends them), under SSP with threshold 3, which may compute while its last gradient is on the way, and under BSP, which may not. Without: bench_bare_loop,
the same loader, oneDNN gradient and Adam on parameters of its own. Both are given the same configuration. Under BSP their
last parameters must agree bit for bit, so both did the same work; under SSP a step computes with parameters of which the
server has not applied all, so they may not.

The two take turns, and who goes first changes with the round, so that a machine whose speed drifts treats them alike;
`ratio` is the median over the rounds of (steps/s through the server / steps/s without). The first step, in which memory
is touched and the first parameters travel, is in both. `cpu_ratio` is the same of the processor time of all processes
per step, start-up taken off by subtracting a run of a few steps: what to make of a busy machine, where the wall time of
two daemons that wait for each other also holds the wait for a free core. `p50_ratio` compares the usual step: the median
step without a server over the sum of the phases' medians through it (each known to 2 %). `phases_p50_ms` is where that
sum comes from, the daemons' own account of a step. Exit status 1 when a `ratio` is below --limit (default: 0.97 for ssp, 0.9 for
bsp); 3 when parameters differ that must not.
"""
import argparse
import csv
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from processes import fail, run_all

CONFIG = """\
run: {{name: through_server, out: {out}}}
cluster: {{nodes: 1, threads_per_node: 1, endpoints: ["ipc://{out}/socket"], shared_memory: {shared_memory}}}
sync: {sync}
train:
  model: {model}
  batch_size: {batch}
  total_iterations: {steps}
  eval_samples: 128           # the final evaluation, after the clock has stopped
  optimizer: {{kind: adam, lr: 0.001}}
data: {{kind: synthetic, path: {data}}}
"""
STEPS = {"cifar_cnn_small": 100, "cifar_cnn": 30}
LIMITS = {"ssp": 0.97, "bsp": 0.9}
SYNC = {"ssp": "{policy: ssp, threshold: 3}", "bsp": "{policy: bsp}"}
SHARED_MEMORY = {"shared": "on", "ipc": "off"}
SHORT = 3  # steps of the runs that show what starting up costs


def bare(args, model, policy, steps, folder):
    config = folder / "config.yaml"
    config.write_text(CONFIG.format(out=folder, model=model, batch=args.batch, steps=steps, data=args.data,
                                    sync=SYNC[policy], shared_memory=SHARED_MEMORY[args.transport]))
    cpu = run_all([[args.bin / "bench_bare_loop", config, folder / "parameters"]], folder)
    said = json.loads((folder / "stdout0").read_text())
    return {"wall": said["wall_seconds"], "p50": said["p50_ms"], "cpu": cpu, "parameters": (folder / "parameters").read_bytes()}


def through_server(args, model, policy, steps, folder):
    config = folder / "config.yaml"
    config.write_text(CONFIG.format(out=folder, model=model, batch=args.batch, steps=steps, data=args.data,
                                    sync=SYNC[policy], shared_memory=SHARED_MEMORY[args.transport]))
    cpu = run_all([[args.bin / "paceline-server", config],
                   [args.bin / "paceline-worker", config, "--node", "0"]], folder)
    summary = json.loads((folder / "summary.json").read_text())
    if summary["status"] != "ok" or summary["iterations"] != steps:
        fail(f"through the server: status {summary['status']}, {summary['iterations']} of {steps} iterations")
    with open(folder / "phases.csv", newline="") as rows:
        phases = {row["phase"]: float(row["p50_ms"]) for row in csv.DictReader(rows)}
    return {"wall": summary["wall_seconds"], "p50": sum(phases.values()), "cpu": cpu, "phases": phases,
            "model": (folder / "model.bin").read_bytes()}


def in_new_folder(loop, args, model, policy, steps):
    with tempfile.TemporaryDirectory(prefix="paceline.") as folder:
        return loop(args, model, policy, steps, Path(folder))


def compare(args, model, policy):
    steps = args.steps or STEPS[model]
    loops = {"bare": bare, "server": through_server}
    start_up = {name: statistics.median(in_new_folder(loop, args, model, policy, SHORT)["cpu"] for _ in range(3))
                for name, loop in loops.items()}
    rounds = []
    for n in range(args.rounds):
        order = ["bare", "server"] if n % 2 == 0 else ["server", "bare"]
        one = {name: in_new_folder(loops[name], args, model, policy, steps) for name in order}
        # A model file ends with its parameters (common/params/model_file.h).
        one["same"] = one["server"]["model"].endswith(one["bare"]["parameters"])
        rounds.append(one)

    def wall_ms(name, one):
        return one[name]["wall"] * 1e3 / steps

    def cpu_ms(name, one):
        return (one[name]["cpu"] - start_up[name]) * 1e3 / (steps - SHORT)

    def median(values):
        return round(statistics.median(values), 3)

    result = {"benchmark": "through_server", "model": model, "policy": policy, "transport": args.transport,
              "batch": args.batch, "steps": steps, "rounds": args.rounds}
    for name in loops:
        result[f"{name}_steps_per_second"] = median(1e3 / wall_ms(name, one) for one in rounds)
        result[f"{name}_ms"] = median(wall_ms(name, one) for one in rounds)
        result[f"{name}_p50_ms"] = median(one[name]["p50"] for one in rounds)
        result[f"{name}_cpu_ms"] = median(cpu_ms(name, one) for one in rounds)
    ratios = [wall_ms("bare", one) / wall_ms("server", one) for one in rounds]
    result["ratio"] = median(ratios)
    result["cpu_ratio"] = median(cpu_ms("bare", one) / cpu_ms("server", one) for one in rounds)
    result["p50_ratio"] = median(one["bare"]["p50"] / one["server"]["p50"] for one in rounds)
    result["ratios"] = [round(ratio, 3) for ratio in ratios]
    result["phases_p50_ms"] = {name: median(one["server"]["phases"][name] for one in rounds)
                               for name in rounds[0]["server"]["phases"] if name != "unaccounted"}
    result["same_parameters"] = all(one["same"] for one in rounds)
    result["load"] = round(os.getloadavg()[0], 1)
    return result


def main():
    root = Path(__file__).resolve().parents[2]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=Path, default=root / "build/release/bin")
    parser.add_argument("--data", type=Path, help="generated data set; default: a small one, made for this and removed")
    parser.add_argument("--model", action="append", choices=STEPS, help="default: both")
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--steps", type=int, help=f"per run; default: {STEPS}; more than {SHORT}")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--policy", action="append", choices=LIMITS, help="default: both")
    parser.add_argument("--transport", choices=SHARED_MEMORY, default="shared")
    parser.add_argument("--limit", type=float, help=f"the least ratio that is not a failure; default: {LIMITS}")
    parser.add_argument("--json", type=Path, help="append the lines to this file, too")
    args = parser.parse_args()
    if args.steps is not None and args.steps <= SHORT:
        parser.error(f"--steps {args.steps}: expected more than {SHORT}")
    for program in ("paceline", "paceline-server", "paceline-worker", "bench_bare_loop"):
        if not (args.bin / program).exists():
            parser.error(f"{args.bin / program} is not there: cmake --build build/release --target benchmarks")

    failed = False
    with tempfile.TemporaryDirectory(prefix="paceline.") as made:
        if args.data is None:
            args.data = Path(made) / "data"
            subprocess.run([args.bin / "paceline", "data", "synthesize", "--out", args.data, "--train", "5000", "--test",
                            "1000"], check=True, stdout=subprocess.DEVNULL)
        for model, policy in itertools.product(args.model or STEPS, args.policy or LIMITS):
            result = compare(args, model, policy)
            result["limit"] = LIMITS[policy] if args.limit is None else args.limit
            line = json.dumps(result)
            print(line, flush=True)
            if args.json:
                with open(args.json, "a", encoding="utf-8") as file:
                    file.write(line + "\n")
            if policy == "bsp" and not result["same_parameters"]:
                fail(f"{model}: the two loops ended with other parameters")
            failed = failed or result["ratio"] < result["limit"]
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
