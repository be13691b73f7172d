#!/usr/bin/python3
"""One training step, oneDNN back end against PyTorch: same network, mini-batch, Adam, one thread each.

    tests/bench/step_vs_pytorch.py --program build/release/bin/bench_model_step [--rounds 5] [--steps 10]

The machine's speed drifts, so the two take turns: each round runs ours, then PyTorch with each of its two memory
layouts, each in a process of its own; the ratio of a round is ours / PyTorch's faster layout, and the result is the
median over rounds. Wants Debian's python3-torch, which belongs to /usr/bin/python3. Exit status 1 when a ratio is above
--limit.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import time

# The number of threads of every library that PyTorch may use; torch.set_num_threads alone does not bind OpenBLAS.
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
LAYOUTS = ("plain", "channels_last")


def pytorch_step(model, batch, steps, layout):
    """Median ms of a PyTorch step. In a process of its own; imports torch there."""
    import torch
    from torch import nn

    torch.set_num_threads(1)
    torch.manual_seed(1)
    kernel, out1, out2, units = (5, 64, 64, 384) if model == "cifar_cnn" else (3, 32, 64, 128)
    same = kernel // 2
    net = nn.Sequential(
        nn.Conv2d(3, out1, kernel, padding=same), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(out1, out2, kernel, padding=same), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(out2 * 64, units), nn.ReLU(), nn.Linear(units, 10))
    images = torch.rand(batch, 3, 32, 32) - 0.5
    labels = torch.randint(0, 10, (batch,))
    if layout == "channels_last":
        net = net.to(memory_format=torch.channels_last)
        images = images.to(memory_format=torch.channels_last)
    adam = torch.optim.Adam(net.parameters(), lr=1e-3)
    loss_of = nn.CrossEntropyLoss()
    times = []
    for step in range(3 + steps):
        begin = time.perf_counter()
        adam.zero_grad(set_to_none=True)
        loss_of(net(images), labels).backward()
        adam.step()
        if step >= 3:
            times.append((time.perf_counter() - begin) * 1e3)
    return statistics.median(times)


def run_json(command):
    env = {**os.environ, **ONE_THREAD}
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=600)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: exit status {done.returncode}: {done.stderr.strip()}")
    return json.loads(done.stdout.splitlines()[-1])["median_ms"]


def compare(program, model, batch, steps, rounds):
    """Medians over the rounds, and the median of the rounds' ratios."""
    ours, ratios = [], []
    theirs = {layout: [] for layout in LAYOUTS}
    for _ in range(rounds):
        ours.append(run_json([program, model, str(batch), str(steps)]))
        for layout in LAYOUTS:
            theirs[layout].append(run_json([sys.executable, os.path.abspath(__file__), "--pytorch", layout, "--model",
                                            model, "--batch", str(batch), "--steps", str(steps)]))
        ratios.append(ours[-1] / min(theirs[layout][-1] for layout in LAYOUTS))
    return {"model": model, "batch": batch, "rounds": rounds, "ours_ms": round(statistics.median(ours), 2),
            **{f"pytorch_{layout}_ms": round(statistics.median(theirs[layout]), 2) for layout in LAYOUTS},
            "ratio": round(statistics.median(ratios), 3), "ratios": [round(r, 3) for r in ratios]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default="build/release/bin/bench_model_step")
    parser.add_argument("--model", action="append", help="default: cifar_cnn_small and cifar_cnn")
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--steps", type=int, default=10, help="timed steps per process, after 3 to warm up")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--limit", type=float, default=0.7)
    parser.add_argument("--pytorch", choices=LAYOUTS, help="time one PyTorch step only (the script calls itself)")
    args = parser.parse_args()
    if args.pytorch:
        print(json.dumps({"median_ms": pytorch_step(args.model[0], args.batch, args.steps, args.pytorch)}))
        return 0
    slow = False
    for model in args.model or ["cifar_cnn_small", "cifar_cnn"]:
        result = compare(args.program, model, args.batch, args.steps, args.rounds)
        print(json.dumps(result), flush=True)
        slow = slow or result["ratio"] > args.limit
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())
