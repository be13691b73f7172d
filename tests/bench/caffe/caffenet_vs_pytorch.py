#!/usr/bin/env python3
"""One training step of a net of the kind CaffeNet at 227 x 227: ours beside PyTorch, one thread each.

    tests/bench/caffe/caffenet_vs_pytorch.py --program build/release/bin/bench_caffe_step [--rounds 3] [--steps 4]

Both take turns, each in a process of its own: ours, then PyTorch with each of its two memory layouts. A round's ratio is
ours over PyTorch's faster layout, in processor time and in wall time; memory is the most that a process had, over
the smaller of PyTorch's two. SGD with momentum 0.9. Run it with an interpreter that has torch 2.

Exit status 1 when a median is above its limit (time 0.9, memory 0.8).
"""
import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import time

LAYOUTS = ("plain", "channels_last")
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
NET = os.path.join(os.path.dirname(os.path.abspath(__file__)), "large_pictures.prototxt")


def pytorch_step(batch, steps, layout):
    """Median ms of a step, and peak memory. In a process of its own; imports torch there."""
    import torch
    from torch import nn

    torch.set_num_threads(1)
    torch.manual_seed(1)
    net = nn.Sequential(
        nn.Conv2d(3, 96, 11, stride=4), nn.ReLU(), nn.MaxPool2d(3, 2, ceil_mode=True),
        nn.LocalResponseNorm(5, 1e-4, 0.75, 1.0),
        nn.Conv2d(96, 256, 5, padding=2, groups=2), nn.ReLU(), nn.MaxPool2d(3, 2, ceil_mode=True),
        nn.LocalResponseNorm(5, 1e-4, 0.75, 1.0),
        nn.Conv2d(256, 384, 3, padding=1), nn.ReLU(),
        nn.Conv2d(384, 384, 3, padding=1, groups=2), nn.ReLU(),
        nn.Conv2d(384, 256, 3, padding=1, groups=2), nn.ReLU(), nn.MaxPool2d(3, 2, ceil_mode=True),
        nn.Flatten(), nn.Linear(9216, 4096), nn.ReLU(), nn.Dropout(), nn.Linear(4096, 4096), nn.ReLU(), nn.Dropout(),
        nn.Linear(4096, 1000))
    images = torch.rand(batch, 3, 227, 227) - 0.5
    labels = torch.arange(batch) % 250
    if layout == "channels_last":
        net = net.to(memory_format=torch.channels_last)
        images = images.to(memory_format=torch.channels_last)
    momentum = torch.optim.SGD(net.parameters(), lr=1e-3, momentum=0.9)
    loss_of = nn.CrossEntropyLoss()
    wall, cpu = [], []
    for step in range(3 + steps):
        begin, cpu_begin = time.perf_counter(), time.process_time()
        momentum.zero_grad(set_to_none=True)
        loss_of(net(images), labels).backward()
        momentum.step()
        if step >= 3:
            wall.append((time.perf_counter() - begin) * 1e3)
            cpu.append((time.process_time() - cpu_begin) * 1e3)
    return {"median_ms": statistics.median(wall), "median_cpu_ms": statistics.median(cpu),
            "peak_kb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, "torch": torch.__version__}


def run_json(command):
    done = subprocess.run(command, env={**os.environ, **ONE_THREAD}, capture_output=True, text=True, timeout=900)
    if done.returncode != 0:
        print(f"{' '.join(command)}: exit status {done.returncode}: {done.stderr.strip()}", file=sys.stderr)
        sys.exit(2)
    return json.loads(done.stdout.splitlines()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default="build/release/bin/bench_caffe_step")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--steps", type=int, default=4, help="timed steps per process, after 3 to warm up")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--pytorch", choices=LAYOUTS, help="time one PyTorch step only (the script calls itself)")
    args = parser.parse_args()
    if args.pytorch:
        print(json.dumps(pytorch_step(args.batch, args.steps, args.pytorch)))
        return 0
    ours, theirs = [], {layout: [] for layout in LAYOUTS}
    for _ in range(args.rounds):
        ours.append(run_json([args.program, NET, "3,227,227", str(args.batch), str(args.steps)]))
        for layout in LAYOUTS:
            theirs[layout].append(run_json([sys.executable, os.path.abspath(__file__), "--pytorch", layout,
                                            "--batch", str(args.batch), "--steps", str(args.steps)]))

    def ratio(key):
        return round(statistics.median(ours[i][key] / min(theirs[layout][i][key] for layout in LAYOUTS)
                                       for i in range(args.rounds)), 3)

    def medians(of, key):
        return round(statistics.median(one[key] for one in of), 1)

    result = {"batch": args.batch, "rounds": args.rounds, "torch": theirs["plain"][0]["torch"]}
    for key in ("median_ms", "median_cpu_ms", "peak_kb"):
        result["ours_" + key] = medians(ours, key)
        for layout in LAYOUTS:
            result[f"pytorch_{layout}_{key}"] = medians(theirs[layout], key)
        result["ratio_" + key] = ratio(key)
    result["load"] = round(os.getloadavg()[0], 1)
    print(json.dumps(result))
    return 1 if result["ratio_median_ms"] > 0.9 or result["ratio_peak_kb"] > 0.8 else 0


if __name__ == "__main__":
    sys.exit(main())
