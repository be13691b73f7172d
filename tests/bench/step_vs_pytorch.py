#!/usr/bin/python3
"""One training step, oneDNN back end against PyTorch: same network, mini-batch, Adam, one thread each.

    tests/bench/step_vs_pytorch.py --program build/release/bin/bench_model_step [--rounds 5] [--steps 10]
    tests/bench/step_vs_pytorch.py --python PYTHON-WITH-TORCH --model resnet20 --limit 0.8 [--precision bf16]
    tests/bench/step_vs_pytorch.py --precisions --model resnet20    # ours in float32 and in bfloat16, without PyTorch

The machine's speed drifts, so the two take turns: each round runs ours, then PyTorch with each of its two memory
layouts, each in a process of its own; the ratio of a round is ours / PyTorch's faster layout, and the result is the
median over rounds. `ratio` is of wall time and wants a quiet machine; `cpu_ratio`, of the processor time used, says
what to make of a busy one; `memory_ratio` is of what network, optimizer and steps add to
the most memory that a process had, without the libraries. Both take uniformly random images in [-0.5, 0.5) and labels, the mean cross-entropy and Adam.

PyTorch is given what it needs to be fast: its oneDNN, OpenBLAS (Debian's default BLAS would double its step), and the
OpenBLAS kernels of this processor, which OpenBLAS 0.3.21 does not always recognise. Only this benchmark needs them,
so scripts/install_deps.sh does not install them:

    sudo apt-get install --no-install-recommends python3-torch libopenblas0-pthread

With --precision bf16 PyTorch computes under its autocast. Exit status 1 when a `ratio` is above --limit, or resnet20's
memory above 0.8; 2 when something is missing.
"""
import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import time

PYTHON = "/usr/bin/python3"  # the one that Debian's python3-torch belongs to
MEMORY_LIMIT = 0.8
INSTALL = "sudo apt-get install --no-install-recommends python3-torch libopenblas0-pthread"
# The number of threads of every library that PyTorch may use; torch.set_num_threads alone does not bind OpenBLAS.
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
LAYOUTS = ("plain", "channels_last")


def openblas_coretype():
    """The OpenBLAS kernels for the vector instructions of this processor; None: let OpenBLAS choose."""
    with open("/proc/cpuinfo") as cpuinfo:
        flags = next((line.split() for line in cpuinfo if line.startswith("flags")), [])
    return "SKYLAKEX" if "avx512f" in flags else "HASWELL" if "avx2" in flags else None


def uses_fast_blas(torch):
    """Whether this process, which has imported torch, has a BLAS other than the reference one."""
    with open("/proc/self/maps") as maps:
        return torch.backends.mkl.is_available() or any(
            name in line for line in maps for name in ("openblas", "mkl_", "blis"))


def two_convolutions(nn, kernel, out1, out2, units):
    same = kernel // 2
    return nn.Sequential(
        nn.Conv2d(3, out1, kernel, padding=same), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(out1, out2, kernel, padding=same), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(out2 * 64, units), nn.ReLU(), nn.Linear(units, 10))


def residual(nn, model):
    """resnet20 or resnet50 as common/network/ready_made.cc has it: shortcuts whose shape changes are convolutions with a norm."""

    def conv_norm(channels, out, kernel, stride):
        return [nn.Conv2d(channels, out, kernel, stride, kernel // 2, bias=False), nn.BatchNorm2d(out)]

    class Block(nn.Module):
        def __init__(self, channels, parts, stride, strided):
            super().__init__()
            self.relu = nn.ReLU(inplace=True)
            body, before = [], channels
            for n, (kernel, out) in enumerate(parts):
                body += [self.relu] * (n > 0) + conv_norm(before, out, kernel, stride if n == strided else 1)
                before = out
            self.body = nn.Sequential(*body)
            self.shortcut = nn.Sequential(*(conv_norm(channels, before, 1, stride) if channels != before else []))

        def forward(self, images):
            return self.relu(self.body(images) + self.shortcut(images))

    if model == "resnet50":
        channels, classes, strided = 64, 1000, 1
        layers = conv_norm(3, 64, 7, 2) + [nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
        stages = [(blocks, [(1, out), (3, out), (1, 4 * out)]) for blocks, out in ((3, 64), (4, 128), (6, 256), (3, 512))]
    else:
        channels, classes, strided = 16, 10, 0
        layers = conv_norm(3, 16, 3, 1) + [nn.ReLU(inplace=True)]
        stages = [(3, [(3, out), (3, out)]) for out in (16, 32, 64)]
    for stage, (blocks, parts) in enumerate(stages):
        for block in range(blocks):
            layers.append(Block(channels, parts, 2 if stage > 0 and block == 0 else 1, strided))
            channels = parts[-1][1]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes))


NETWORKS = {
    "cifar_cnn_small": lambda nn: two_convolutions(nn, 3, 32, 64, 128),
    "cifar_cnn": lambda nn: two_convolutions(nn, 5, 64, 64, 384),
    "resnet20": lambda nn: residual(nn, "resnet20"),
}


def peak_kb():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def pytorch_step(model, batch, steps, layout, precision):
    """Median wall and processor ms of a PyTorch step. In a process of its own; imports torch there."""
    try:
        import torch
        from torch import nn
    except ModuleNotFoundError as missing:
        sys.exit(f"{missing} in {sys.executable}; install PyTorch with: {INSTALL}")
    if not torch.backends.mkldnn.is_available():
        sys.exit("this PyTorch was built without oneDNN (MKL-DNN), which makes it slow: the comparison would be worth "
                 f"nothing; install Debian's with: {INSTALL}")
    if not uses_fast_blas(torch):
        sys.exit("this PyTorch uses the reference BLAS, which makes it slow: the comparison would be worth nothing; "
                 f"install OpenBLAS with: {INSTALL}")

    torch.set_num_threads(1)
    torch.manual_seed(1)
    imported_kb = peak_kb()
    net = NETWORKS[model](nn)
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
        with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16"):
            loss = loss_of(net(images), labels)
        loss.backward()
        adam.step()
        if step >= 3:
            wall.append((time.perf_counter() - begin) * 1e3)
            cpu.append((time.process_time() - cpu_begin) * 1e3)
    return {"median_ms": statistics.median(wall), "median_cpu_ms": statistics.median(cpu),
            "step_kb": peak_kb() - imported_kb}


def run_json(command):
    coretype = openblas_coretype()
    env = {**os.environ, **ONE_THREAD, **({"OPENBLAS_CORETYPE": coretype} if coretype else {})}
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=600)
    if done.returncode != 0:
        print(f"{' '.join(command)}: exit status {done.returncode}: {done.stderr.strip()}", file=sys.stderr)
        sys.exit(2)
    return json.loads(done.stdout.splitlines()[-1])


def our_step(args, model, precision):
    where = "cpu" if precision == "fp32" else "cpu-" + precision
    return run_json([args.program, model, str(args.batch), str(args.steps), "0", where])


def pytorch_step_apart(args, model, layout):
    return run_json([args.python, os.path.abspath(__file__), "--pytorch", layout, "--model", model,
                     "--batch", str(args.batch), "--steps", str(args.steps), "--precision", args.precision])


KEYS = {"": "median_ms", "cpu_": "median_cpu_ms", "memory_": "step_kb"}


def against_pytorch(args, model):
    """Medians over the rounds, and the median of the rounds' ratios."""
    rounds = [(our_step(args, model, args.precision),
               {layout: pytorch_step_apart(args, model, layout) for layout in LAYOUTS}) for _ in range(args.rounds)]
    result = {"model": model, "batch": args.batch, "precision": args.precision, "rounds": args.rounds}
    for name, key in KEYS.items():
        result["ours_" + key] = round(statistics.median(ours[key] for ours, _ in rounds), 3)
        for layout in LAYOUTS:
            result[f"pytorch_{layout}_{key}"] = round(statistics.median(theirs[layout][key] for _, theirs in rounds), 3)
        ratios = [round(ours[key] / min(one[key] for one in theirs.values()), 3) for ours, theirs in rounds]
        result[name + "ratio"] = statistics.median(ratios)
        result[name + "ratios"] = ratios
    return result


def against_float32(args, model):
    """Ours in bfloat16 beside ours in float32, in turns."""
    rounds = [(our_step(args, model, "fp32"), our_step(args, model, "bf16")) for _ in range(args.rounds)]
    result = {"model": model, "batch": args.batch, "rounds": args.rounds}
    for name, key in KEYS.items():
        result["fp32_" + key] = round(statistics.median(wide[key] for wide, _ in rounds), 3)
        result["bf16_" + key] = round(statistics.median(narrow[key] for _, narrow in rounds), 3)
        result[name + "ratio"] = round(statistics.median(narrow[key] / wide[key] for wide, narrow in rounds), 3)
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default="build/release/bin/bench_model_step")
    parser.add_argument("--model", action="append", choices=tuple(NETWORKS), help="cifar_cnn_small and cifar_cnn unless given")
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--steps", type=int, default=10, help="timed steps per process, after 3 to warm up")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--limit", type=float, default=0.7)
    parser.add_argument("--python", default=PYTHON, help="an interpreter with torch")
    parser.add_argument("--precision", choices=("fp32", "bf16"), default="fp32")
    parser.add_argument("--precisions", action="store_true", help="ours alone: bf16 beside fp32")
    parser.add_argument("--pytorch", choices=LAYOUTS, help="time one PyTorch step only (the script calls itself)")
    args = parser.parse_args()
    if args.pytorch:
        print(json.dumps(pytorch_step(args.model[0], args.batch, args.steps, args.pytorch, args.precision)))
        return 0
    if not os.path.exists(args.program):
        parser.error(f"{args.program} is not there: cmake --build build/release --target benchmarks")
    missed = False
    for model in args.model or ["cifar_cnn_small", "cifar_cnn"]:
        result = (against_float32 if args.precisions else against_pytorch)(args, model)
        result["load"] = round(os.getloadavg()[0], 1)
        print(json.dumps(result), flush=True)
        if not args.precisions:
            missed |= result["ratio"] > args.limit or (model == "resnet20" and result["memory_ratio"] > MEMORY_LIMIT)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
