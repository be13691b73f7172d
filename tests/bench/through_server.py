#!/usr/bin/env python3
"""One worker through the server against the same loop without one: what the server and the way to it add to a step.

    cmake --build build/release --target benchmarks
    tests/bench/through_server.py [--bin build/release/bin] [--rounds 15] [--steps N] [--model M] [--policy P]
                                  [--refresh-clocks R] [--transport shared] [--no-huge-pages] [--device cpu] [--json FILE]

Through the server: paceline-server and paceline-worker, one node of one thread, nothing emulated, on one machine as a user
has it there (`transport`: shared, parameters and gradients in memory that both see; ZeroMQ over ipc carries the headers;
--transport ipc sends them), under SSP with threshold 3, which may compute while its last gradient is on the way, and under
BSP, which may not. SSP is measured with each --refresh-clocks: 1, the default of sync.refresh_clocks, waits for the newest
parameters in each step; null, as in the DTSSP paper, for those that the threshold requires, which are here before. Without:
bench_bare_loop, the same loader, oneDNN gradient and Adam on parameters of its own. Both are given the same configuration.
Under BSP their last parameters must agree bit for bit, so both did the same work; under SSP a step computes with parameters of
which the server has not applied all, so they may not.

Beside them, on the CPU, bench_bare_loop --handed-over: what of the difference is the machine's own. A second thread there reads
each gradient and makes Adam's step with it, and the first computes on with a copy of what that made (with --refresh-clocks null
with its own), without messages, processes and checks. `of_handed_over` is the median of (steps/s through the server / its).

They take turns, and who goes first changes with the round, so that a machine whose speed drifts treats them alike;
`ratio` is the median over the rounds of (steps/s through the server / steps/s without). The first step, in which memory
is touched and the first parameters travel, is in both. `cpu_ratio` is the same of the processor time of all processes
per step, start-up taken off by subtracting a run of a few steps: what to make of a busy machine, where the wall time of
two daemons that wait for each other also holds the wait for a free core. `p50_ratio` compares the usual step: the median
step without a server over the sum of the phases' medians through it (each known to 2 %). `phases_p50_ms` is where that
sum comes from, the daemons' own account of a step. With --no-huge-pages the daemons take none (cluster.huge_pages;
docs/PERFORMANCE.md says when that matters); the loops without a server never ask for them. Exit status 1 when a `ratio` is
below --limit (default: 0.97 for ssp, 0.9 for bsp); 3 when parameters differ that must not.
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

from processes import fail, run_all, say

CONFIG = """\
run: {{name: through_server, out: {out}}}
cluster: {{nodes: 1, threads_per_node: 1, endpoints: ["ipc://{out}/socket"], shared_memory: {shared_memory},
  huge_pages: {huge_pages}}}
sync: {sync}
train:
  model: {model}
  batch_size: {batch}
  total_iterations: {steps}
  eval_samples: 128           # the final evaluation, after the clock has stopped
  optimizer: {{kind: adam, lr: 0.001}}
  {device}
data: {{kind: synthetic, path: {data}}}
"""
STEPS = {"cifar_cnn_small": 100, "cifar_cnn": 30}
LIMITS = {"ssp": 0.97, "bsp": 0.9}
SYNC = {"ssp": "{{policy: ssp, threshold: 3, refresh_clocks: {}}}", "bsp": "{{policy: bsp}}"}
REFRESH_CLOCKS = ["1", "null"]
SHARED_MEMORY = {"shared": "on", "ipc": "off"}
DEVICES = {"cpu": "device: cpu", **{name: f"device: cuda\n  precision: {name}" for name in ("fp32", "tf32", "bf16")},
           "fp16": "device: cuda\n  precision: fp16\n  on_nan: skip"}
SHORT = 3  # steps of the runs that show what starting up costs


def config_of(args, model, sync, steps, folder):
    file = folder / "config.yaml"
    file.write_text(CONFIG.format(out=folder, model=model, batch=args.batch, steps=steps, data=args.data, sync=sync,
                                  shared_memory=SHARED_MEMORY[args.transport], device=DEVICES[args.device],
                                  huge_pages=str(not args.no_huge_pages).lower()))
    return file


def bare(args, model, sync, steps, folder, *options):
    config = config_of(args, model, sync, steps, folder)
    cpu = run_all([[args.bin / "bench_bare_loop", *options, config, folder / "parameters"]], folder)
    output = json.loads((folder / "stdout0").read_text())
    parameters = (folder / "parameters").read_bytes() if args.device == "cpu" else None  # else they are on the GPU
    return {"wall": output["wall_seconds"], "p50": output["p50_ms"], "cpu": cpu, "parameters": parameters}


def handed_over(*of):
    return bare(*of, "--handed-over")


def through_server(args, model, sync, steps, folder):
    config = config_of(args, model, sync, steps, folder)
    cpu = run_all([[args.bin / "paceline-server", config],
                   [args.bin / "paceline-worker", config, "--node", "0"]], folder)
    summary = json.loads((folder / "summary.json").read_text())
    if summary["status"] != "ok" or summary["iterations"] != steps:
        fail(f"through the server: status {summary['status']}, {summary['iterations']} of {steps} iterations")
    with open(folder / "phases.csv", newline="") as rows:
        # Of a phase that most steps do not have the usual step has none.
        phases = {row["phase"]: float(row["p50_ms"]) if 2 * int(row["count"]) > steps else 0.0 for row in csv.DictReader(rows)}
    return {"wall": summary["wall_seconds"], "p50": sum(phases.values()), "cpu": cpu, "phases": phases,
            "model": (folder / "model.bin").read_bytes()}


def in_new_folder(loop, args, model, sync, steps):
    with tempfile.TemporaryDirectory(prefix="paceline.") as folder:
        return loop(args, model, sync, steps, Path(folder))


def compare(args, model, policy, refresh_clocks):
    steps = args.steps or STEPS[model]
    sync = SYNC[policy].format(refresh_clocks)
    loops = {"bare": bare, **({"handed_over": handed_over} if args.device == "cpu" else {}), "server": through_server}
    start_up = {name: statistics.median(in_new_folder(loop, args, model, sync, SHORT)["cpu"] for _ in range(3))
                for name, loop in loops.items()}
    rounds = []
    for n in range(args.rounds):
        order = list(loops)[:: 1 if n % 2 == 0 else -1]
        one = {name: in_new_folder(loops[name], args, model, sync, steps) for name in order}
        # A model file ends with its parameters (common/params/model_file.h).
        parameters = one["bare"]["parameters"]
        one["same"] = parameters is None or one["server"]["model"].endswith(parameters)
        rounds.append(one)

    def wall_ms(name, one):
        return one[name]["wall"] * 1e3 / steps

    def cpu_ms(name, one):
        return (one[name]["cpu"] - start_up[name]) * 1e3 / (steps - SHORT)

    def median(values):
        return round(statistics.median(values), 3)

    result = {"benchmark": "through_server", "model": model, "policy": policy, "transport": args.transport,
              **({"refresh_clocks": refresh_clocks} if refresh_clocks else {}),
              **({"huge_pages": False} if args.no_huge_pages else {}),
              **({} if args.device == "cpu" else {"device": args.device}), "batch": args.batch, "steps": steps,
              "rounds": args.rounds}
    for name in loops:
        result[f"{name}_steps_per_second"] = median(1e3 / wall_ms(name, one) for one in rounds)
        result[f"{name}_ms"] = median(wall_ms(name, one) for one in rounds)
        result[f"{name}_p50_ms"] = median(one[name]["p50"] for one in rounds)
        result[f"{name}_cpu_ms"] = median(cpu_ms(name, one) for one in rounds)
    ratios = [wall_ms("bare", one) / wall_ms("server", one) for one in rounds]
    result["ratio"] = median(ratios)
    result["cpu_ratio"] = median(cpu_ms("bare", one) / cpu_ms("server", one) for one in rounds)
    result["p50_ratio"] = median(one["bare"]["p50"] / one["server"]["p50"] for one in rounds)
    if "handed_over" in loops:
        result["of_handed_over"] = median(wall_ms("handed_over", one) / wall_ms("server", one) for one in rounds)
    result["ratios"] = [round(ratio, 3) for ratio in ratios]
    result["phases_p50_ms"] = {name: median(one["server"]["phases"][name] for one in rounds)
                               for name in rounds[0]["server"]["phases"] if name != "unaccounted"}
    if args.device == "cpu":
        result["same_parameters"] = all(one["same"] for one in rounds)
    result["load"] = round(os.getloadavg()[0], 1)
    return result


def cases(args):
    for model, policy in itertools.product(args.model or STEPS, args.policy or LIMITS):
        # BSP requires the newest parameters in each step.
        for refresh_clocks in args.refresh_clocks or REFRESH_CLOCKS if policy == "ssp" else [None]:
            yield model, policy, refresh_clocks


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
    parser.add_argument("--refresh-clocks", action="append", help="of ssp; default: 1 and null")
    parser.add_argument("--transport", choices=SHARED_MEMORY, default="shared")
    parser.add_argument("--no-huge-pages", action="store_true")
    parser.add_argument("--device", choices=DEVICES, default="cpu", help="cpu, or the precision on the first GPU, with ssp")
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
        for model, policy, refresh_clocks in cases(args):
            result = compare(args, model, policy, refresh_clocks)
            result["limit"] = LIMITS[policy] if args.limit is None else args.limit
            say(result, args.json)
            if policy == "bsp" and result.get("same_parameters") is False:
                fail(f"{model}: the two loops ended with other parameters")
            failed = failed or result["ratio"] < result["limit"]
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
