#!/usr/bin/env python3
"""Samples a second of 1, 2 and 4 worker threads on one GPU, through the server.

    tests/bench/gpu_threads.py [--bin build/release/bin] [--rounds 3] [--steps 600] [--model M] [--batch N] [--threads N]
                               [--precision tf32] [key.path=value …]

paceline-server and one paceline-worker with that many threads, on one machine: headers over ipc, parameters and gradients in
memory that both see, SSP with threshold 3, Adam, generated data, nothing emulated. --steps is of each thread. The numbers of
threads take turns; `to_one` is the median over the rounds of samples/s by those of one thread. One JSON line for each batch
and number of threads, with the medians of the phases of a step. key.path=value: the run's configuration otherwise.
--device cpu tries the script itself on a machine without a GPU. Exit status: 1 where four threads are less than --limit times
one, 3 when nothing could be measured.
"""
import argparse
import csv
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from processes import fail, run_all

CONFIG = """\
run: {{name: gpu_threads, out: {out}}}
cluster: {{nodes: 1, threads_per_node: {threads}, endpoints: ["ipc://{out}/socket"], shared_memory: on}}
sync: {{policy: ssp, threshold: 3}}
train:
  model: {model}
  batch_size: {batch}
  total_iterations: {iterations}
  eval_samples: 128           # the final evaluation, after the clock has stopped
  optimizer: {{kind: adam, lr: 0.0001}}
data: {{kind: synthetic, path: {data}, loader_threads: 4}}
"""


def one_run(args, batch, threads):
    with tempfile.TemporaryDirectory(prefix="paceline.") as made:
        folder = Path(made)
        config = folder / "config.yaml"
        iterations = args.steps * threads
        config.write_text(CONFIG.format(out=folder, threads=threads, model=args.model, batch=batch, iterations=iterations,
                                        data=args.data))
        gpu = ["train.device=cuda", f"train.precision={args.precision}"] if args.device == "cuda" else []
        gpu += ["train.on_nan=skip"] if args.precision == "fp16" else []
        given = [*gpu, *args.overrides]
        cpu = run_all([[args.bin / "paceline-server", config, *given],
                       [args.bin / "paceline-worker", config, "--node", "0", *given]], folder)
        summary = json.loads((folder / "summary.json").read_text())
        if summary["status"] != "ok" or summary["iterations"] != iterations:
            fail(f"{threads} threads: status {summary['status']}, {summary['iterations']} of {iterations} iterations")
        with open(folder / "phases.csv", newline="", encoding="utf-8") as rows:
            phases = {row["phase"]: float(row["p50_ms"]) for row in csv.DictReader(rows)}
        return {"samples": iterations * batch / summary["wall_seconds"], "cores": cpu / summary["wall_seconds"], "phases": phases}


def make_data(programs, folder):
    subprocess.run([programs / "paceline", "data", "synthesize", "--out", folder, "--train", "5000", "--test", "1000"],
                   check=True, stdout=subprocess.DEVNULL)


def measure(args, batch, counts):
    """Whether four are less than --limit times one."""
    rounds, missed = [], False
    for n in range(args.rounds):
        rounds.append({threads: one_run(args, batch, threads) for threads in counts[:: 1 if n % 2 == 0 else -1]})
    for threads in counts:
        runs = [one[threads] for one in rounds]
        result = {"benchmark": "gpu_threads", "model": args.model, "batch": batch, "threads": threads,
                  "precision": args.precision if args.device == "cuda" else "cpu", "steps": args.steps, "rounds": args.rounds,
                  "samples_per_second": round(statistics.median(run["samples"] for run in runs)),
                  "to_one": round(statistics.median(one[threads]["samples"] / one[counts[0]]["samples"] for one in rounds), 3),
                  "cores": round(statistics.median(run["cores"] for run in runs), 2),
                  "phases_p50_ms": {name: round(statistics.median(run["phases"][name] for run in runs), 3)
                                    for name in runs[0]["phases"] if name != "unaccounted"},
                  "limit": args.limit if threads == 4 else None}
        print(json.dumps(result), flush=True)
        missed = missed or (threads == 4 and result["to_one"] < args.limit)
    return missed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("overrides", nargs="*")
    parser.add_argument("--bin", type=Path, default=Path(__file__).resolve().parents[2] / "build/release/bin")
    parser.add_argument("--data", type=Path, help="generated data set; default: a small one, made for this and removed")
    parser.add_argument("--model", default="cifar_cnn")
    parser.add_argument("--batch", action="append", type=int, help="default: 32 and 128")
    parser.add_argument("--threads", action="append", type=int, help="default: 1, 2 and 4; the first is the one of `to_one`")
    parser.add_argument("--precision", default="tf32", choices=("fp32", "tf32", "bf16", "fp16"))
    parser.add_argument("--steps", type=int, default=600, help="of each thread")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--limit", type=float, default=1.5, help="the least of four threads to one")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="paceline.") as made:
        if args.data is None:
            args.data = Path(made) / "data"
            make_data(args.bin, args.data)
        missed = [measure(args, batch, args.threads or [1, 2, 4]) for batch in args.batch or (32, 128)]
    return 1 if any(missed) else 0


if __name__ == "__main__":
    sys.exit(main())
