#!/usr/bin/env python3
"""A synchronous step of N workers beside a peer: push + SGD + pull through paceline-server under BSP, and Gloo's all-reduce
of the same gradient with SGD on every worker, as PyTorch's data-parallel training does it.

    cmake --build build/release --target benchmarks
    tests/bench/exchange_vs_gloo.py [--bin build/release/bin] [--pairs 15] [--mb 64] [--workers 2 4] [--transport shared]
                                    [--python /usr/bin/python3] [--json FILE]

Both end a step with the same parameters on all workers, the mean of their gradients applied once. Gloo sends over loopback tcp;
Paceline over tcp, too, or (--transport shared) in memory that both see, which is what `cluster.shared_memory: auto` chooses
on one machine. Gloo needs no server: its N processes share the machine, ours have one more. The steps compute nothing; a step
is read from its beginning to that of the next, after some to warm up. One thread a process computes; Gloo has one more that
sends, we have ours.

The two take turns, and who goes first changes from pair to pair; `ratio` is the median over the pairs of (Gloo's seconds /
Paceline's seconds): above 1, Paceline is faster. One JSON line for each number of workers. There is no target.

Only this benchmark and step_vs_pytorch.py need PyTorch, so scripts/install_deps.sh does not install it:
    sudo apt-get install --no-install-recommends python3-torch libopenblas0-pthread
"""
import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

from exchange import BYTES_PER_RUN, ONE_SERVER, WARM_UP_STEPS, congestion_control, path, seconds_per_step
from processes import run_all

INSTALL = "sudo apt-get install --no-install-recommends python3-torch libopenblas0-pthread"


def gloo_worker(rank, workers, floats, steps, store):
    """One process of the all-reduce; imports torch only here. Prints the seconds of a step."""
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    try:
        import torch
        import torch.distributed as distributed
    except ModuleNotFoundError as missing:
        sys.exit(f"{missing} in {sys.executable}; install PyTorch with: {INSTALL}")
    if not distributed.is_available() or not distributed.is_gloo_available():
        sys.exit(f"this PyTorch was built without Gloo; install Debian's with: {INSTALL}")
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=workers)
    parameters, gradient = torch.zeros(floats), torch.ones(floats)
    begin = 0.0
    for step in range(WARM_UP_STEPS + steps):
        if step == WARM_UP_STEPS:
            begin = time.perf_counter()
        distributed.all_reduce(gradient)
        parameters.add_(gradient, alpha=-0.001 / workers)
    seconds = (time.perf_counter() - begin) / steps
    distributed.barrier()
    print(json.dumps({"seconds_per_step": seconds}))


def gloo(args, floats, steps, folder):
    """Seconds of a step, and the processor seconds of all processes for all they did."""
    cpu = run_all([[args.python, os.path.abspath(__file__), "--gloo-rank", str(rank), "--workers", str(args.workers), "--floats",
                    str(floats), "--steps", str(steps), "--store", folder / "store"] for rank in range(args.workers)], folder)
    return seconds_per_step(folder, 0, args.workers), cpu


def compare(args, workers):
    args.workers = workers
    floats = int(args.mb * 1e6 / 4)
    steps = max(10, min(2000, int(BYTES_PER_RUN / (args.mb * 1e6 * workers))))
    loops = {"gloo": gloo, "paceline": path}
    pairs = []
    for n in range(args.pairs):
        said = {}
        for name in loops if n % 2 == 0 else reversed(loops):
            with tempfile.TemporaryDirectory(prefix="paceline.", dir="/dev/shm" if args.transport == "shared" else None) as made:
                said[name] = loops[name](args, floats, steps, Path(made))
        pairs.append(said)
    ratios = sorted(one["gloo"][0] / one["paceline"][0] for one in pairs)

    def median_ms(name):
        return round(1e3 * statistics.median(one[name][0] for one in pairs), 2)

    return {"benchmark": "exchange_vs_gloo", "mb": args.mb, "workers": workers, "transport": args.transport, "steps": steps,
            "pairs": args.pairs, "gloo_ms": median_ms("gloo"), "paceline_ms": median_ms("paceline"),
            "ratio": round(statistics.median(ratios), 3), "ratio_range": [round(ratios[0], 3), round(ratios[-1], 3)],
            "load": round(os.getloadavg()[0], 1), "tcp_congestion_control": congestion_control()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=Path, default=Path(__file__).resolve().parents[2] / "build/release/bin")
    parser.add_argument("--pairs", type=int, default=15)
    parser.add_argument("--mb", type=float, default=64)
    parser.add_argument("--workers", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--transport", choices=["tcp", "shared"], default="tcp")
    parser.add_argument("--python", default="/usr/bin/python3", help="that has PyTorch; default: Debian's")
    parser.add_argument("--json", type=Path, help="append the lines to this file, too")
    parser.add_argument("--gloo-rank", type=int, help="be one process of the all-reduce (the script calls itself)")
    parser.add_argument("--floats", type=int, help="with --gloo-rank")
    parser.add_argument("--steps", type=int, help="with --gloo-rank")
    parser.add_argument("--store", help="with --gloo-rank")
    args = parser.parse_args()
    if args.gloo_rank is not None:
        gloo_worker(args.gloo_rank, args.workers[0], args.floats, args.steps, args.store)
        return 0
    vars(args).update(ONE_SERVER, policy="bsp")
    for workers in args.workers:
        line = json.dumps(compare(args, workers))
        print(line, flush=True)
        if args.json:
            with open(args.json, "a", encoding="utf-8") as file:
                file.write(line + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
