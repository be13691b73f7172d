#!/usr/bin/python3
"""One training step, oneDNN back end against PyTorch: same network, mini-batch, Adam, one thread each.

    tests/bench/step_vs_pytorch.py --program build/release/bin/bench_model_step [--rounds 5] [--steps 10]

The machine's speed drifts, so the two take turns: each round runs ours, then PyTorch with each of its two memory
layouts, each in a process of its own; the ratio of a round is ours / PyTorch's faster layout, and the result is the
median over rounds. `ratio` is of wall time and wants a quiet machine; `cpu_ratio`, of the processor time used, says
what to make of a busy one. Both take uniformly random images in [-0.5, 0.5) and labels, the mean cross-entropy and Adam.

PyTorch is given what it needs to be fast: its oneDNN, OpenBLAS (Debian's default BLAS would double its step), and the
OpenBLAS kernels of this processor, which OpenBLAS 0.3.21 does not always recognise. Only this benchmark needs them,
so scripts/install_deps.sh does not install them:

    sudo apt-get install --no-install-recommends python3-torch libopenblas0-pthread

Exit status 1 when a `ratio` is above --limit, 2 when something is missing.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import time

PYTHON = "/usr/bin/python3"  # the one that Debian's python3-torch belongs to
INSTALL = "sudo apt-get install --no-install-recommends python3-torch libopenblas0-pthread"
# The number of threads of every library that PyTorch may use; torch.set_num_threads alone does not bind OpenBLAS.
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
LAYOUTS = ("plain", "channels_last")


def openblas_coretype():
    """The OpenBLAS kernels for the vector instructions of this processor; None: let OpenBLAS choose."""
    with open("/proc/cpuinfo") as cpuinfo:
        flags = next((line.split() for line in cpuinfo if line.startswith("flags")), [])
    return "SKYLAKEX" if "avx512f" in flags else "HASWELL" if "avx2" in flags else None


def uses_fast_blas():
    """Whether this process, which has imported torch, has loaded a BLAS other than the reference one."""
    with open("/proc/self/maps") as maps:
        return any(name in line for line in maps for name in ("openblas", "mkl_", "blis"))


def pytorch_step(model, batch, steps, layout):
    """Median wall and processor ms of a PyTorch step. In a process of its own; imports torch there."""
    try:
        import torch
        from torch import nn
    except ModuleNotFoundError as missing:
        sys.exit(f"{missing} in {sys.executable}; install PyTorch with: {INSTALL}")
    if not torch.backends.mkldnn.is_available():
        sys.exit("this PyTorch was built without oneDNN (MKL-DNN), which makes it slow: the comparison would be worth "
                 f"nothing; install Debian's with: {INSTALL}")
    if not uses_fast_blas():
        sys.exit("this PyTorch uses the reference BLAS, which makes it slow: the comparison would be worth nothing; "
                 f"install OpenBLAS with: {INSTALL}")

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
    wall, cpu = [], []
    for step in range(3 + steps):
        begin, cpu_begin = time.perf_counter(), time.process_time()
        adam.zero_grad(set_to_none=True)
        loss_of(net(images), labels).backward()
        adam.step()
        if step >= 3:
            wall.append((time.perf_counter() - begin) * 1e3)
            cpu.append((time.process_time() - cpu_begin) * 1e3)
    return {"median_ms": statistics.median(wall), "median_cpu_ms": statistics.median(cpu)}


def run_json(command):
    coretype = openblas_coretype()
    env = {**os.environ, **ONE_THREAD, **({"OPENBLAS_CORETYPE": coretype} if coretype else {})}
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=600)
    if done.returncode != 0:
        print(f"{' '.join(command)}: exit status {done.returncode}: {done.stderr.strip()}", file=sys.stderr)
        sys.exit(2)
    return json.loads(done.stdout.splitlines()[-1])


def compare(program, model, batch, steps, rounds):
    """Medians over the rounds, and the median of the rounds' ratios."""
    ours, theirs = [], {layout: [] for layout in LAYOUTS}
    for _ in range(rounds):
        ours.append(run_json([program, model, str(batch), str(steps)]))
        for layout in LAYOUTS:
            theirs[layout].append(run_json([PYTHON, os.path.abspath(__file__), "--pytorch", layout, "--model", model,
                                            "--batch", str(batch), "--steps", str(steps)]))

    def ratios(key):
        return [ours[i][key] / min(theirs[layout][i][key] for layout in LAYOUTS) for i in range(rounds)]

    def median(values):
        return round(statistics.median(values), 3)

    result = {"model": model, "batch": batch, "rounds": rounds}
    for name, key in (("ms", "median_ms"), ("cpu_ms", "median_cpu_ms")):
        result[f"ours_{name}"] = median([one[key] for one in ours])
        for layout in LAYOUTS:
            result[f"pytorch_{layout}_{name}"] = median([one[key] for one in theirs[layout]])
    result["ratio"] = median(ratios("median_ms"))
    result["cpu_ratio"] = median(ratios("median_cpu_ms"))
    result["ratios"] = [round(ratio, 3) for ratio in ratios("median_ms")]
    result["load"] = round(os.getloadavg()[0], 1)
    return result


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
        print(json.dumps(pytorch_step(args.model[0], args.batch, args.steps, args.pytorch)))
        return 0
    if not os.path.exists(args.program):
        parser.error(f"{args.program} is not there: cmake --build build/release --target benchmarks")
    slow = False
    for model in args.model or ["cifar_cnn_small", "cifar_cnn"]:
        result = compare(args.program, model, args.batch, args.steps, args.rounds)
        print(json.dumps(result), flush=True)
        slow = slow or result["ratio"] > args.limit
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())
