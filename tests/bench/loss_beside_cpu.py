#!/usr/bin/env python3
"""Whether training on a GPU goes as on the CPU: the loss of each step of the same loop, with CUDA and with oneDNN.

    tests/bench/loss_beside_cpu.py [--bin build/release/bin] [--steps 50] [--batch 128] [--lr 0.1] [--model M]
                                   [--precision fp32|tf32|bf16|fp16]

bench_bare_loop: generated data, SGD, no dropout, the same first parameters and mini-batches. `mean_difference` is the mean
over the steps of |loss on the GPU - loss on the CPU| / loss on the CPU. One JSON line for each model and precision.
Exit status: 1 when one is above --limit, 3 when nothing could be measured. --precision cpu, which is none of the defaults,
tries the script itself on a machine without a GPU.
"""
import argparse
import itertools
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from processes import run_all

CONFIG = """\
run: {{name: loss_beside_cpu, out: {out}}}
cluster: {{nodes: 1, threads_per_node: 1}}
sync: {{policy: bsp}}
train: {{batch_size: {batch}, total_iterations: {steps}, optimizer: {{kind: sgd, lr: {lr}}}}}
data: {{kind: synthetic, path: {data}}}
"""
MODELS = ("cifar_cnn_small", "cifar_cnn")
PRECISIONS = ("fp32", "tf32", "bf16", "fp16")


def losses_of(args, cells):
    """The losses of each (model, where), computed side by side."""
    with tempfile.TemporaryDirectory(prefix="paceline.") as made:
        folder = Path(made)
        data = folder / "data"
        subprocess.run([args.bin / "paceline", "data", "synthesize", "--out", data, "--train", str(args.steps * args.batch),
                        "--test", "10"], check=True, stdout=subprocess.DEVNULL)
        config = folder / "config.yaml"
        config.write_text(CONFIG.format(out=folder, batch=args.batch, steps=args.steps, lr=args.lr, data=data))
        commands = [[args.bin / "bench_bare_loop", config, folder / f"parameters{n}", f"train.model={model}",
                     *([] if where == "cpu" else ["train.device=cuda", f"train.precision={where}"]),
                     *(["train.on_nan=skip"] if where == "fp16" else [])]
                    for n, (model, where) in enumerate(cells)]
        run_all(commands, folder)
        return {cell: json.loads((folder / f"stdout{n}").read_text())["losses"] for n, cell in enumerate(cells)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=Path, default=Path(__file__).resolve().parents[2] / "build/release/bin")
    parser.add_argument("--model", action="append", choices=MODELS, help="default: both")
    parser.add_argument("--precision", action="append", choices=(*PRECISIONS, "cpu"), help="default: all but cpu")
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("--limit", type=float, default=0.02)
    args = parser.parse_args()
    models, precisions = args.model or MODELS, args.precision or PRECISIONS
    cells = list(dict.fromkeys(itertools.product(models, ("cpu", *precisions))))
    losses = losses_of(args, cells)
    missed = False
    for model, precision in itertools.product(models, precisions):
        cpu, gpu = losses[model, "cpu"], losses[model, precision]
        differences = [abs(g - c) / c for g, c in zip(gpu, cpu)]
        mean = statistics.fmean(differences)
        print(json.dumps({"benchmark": "loss_beside_cpu", "model": model, "precision": precision, "batch": args.batch,
                          "steps": args.steps, "first_loss": cpu[0], "last_loss_cpu": cpu[-1], "last_loss": gpu[-1],
                          "mean_difference": round(mean, 6), "worst_difference": round(max(differences), 6),
                          "limit": args.limit}), flush=True)
        missed = missed or not mean <= args.limit  # a NaN is none
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
