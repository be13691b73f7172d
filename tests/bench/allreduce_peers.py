#!/usr/bin/env python3
"""An all-reduce of ours beside Debian's Gloo, PyTorch's and Open MPI's, in turns on this machine.

    cmake --build build/release --target benchmarks
    tests/bench/allreduce_peers.py [--bin build/release/bin] [--turns 15] [--ranks 2 4] [--memory sent shared]
                                   [--python PYTHON-WITH-TORCH] [--json FILE]

`sent`: over tcp on the loopback, ours and Gloo's, and a raw loop of the same bytes; `shared`: ours and Open MPI's in shared
memory, Gloo's as before. A turn starts the processes of each side anew, one side after the other, and who begins changes. A figure is
the time of one reduction of so many as take some 100 ms, after two that are not counted; printed are medians over the turns, and
ratios of medians: ours (the best algorithm) over the best of Gloo's, over Open MPI's, and the raw loop over ours.
Who is missing (libgloo-dev, python3-torch, libopenmpi-dev) is left out and said.
"""
import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import processes
from exchange import congestion_control
from processes import fail, run_all

SIZES = [4096, 262144, 4194304, 67108864]
LINE = re.compile(r"^  (\S.*?) +median +([0-9.]+) ms")


def torch_rank(rank, ranks, store):
    """One process of PyTorch's; imports torch only here."""
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    import torch
    import torch.distributed as distributed
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=ranks)
    for size in SIZES:
        vector = torch.zeros(size // 4)
        distributed.all_reduce(vector)
        begin = time.perf_counter()
        distributed.all_reduce(vector)
        count = torch.tensor([min(400.0, max(1.0, 0.1 / (time.perf_counter() - begin))) if rank == 0 else 0.0])
        distributed.all_reduce(count)
        begin = time.perf_counter()
        for _ in range(int(count[0])):
            distributed.all_reduce(vector)
        if rank == 0:
            print(size, 1e3 * (time.perf_counter() - begin) / int(count[0]), flush=True)
    distributed.barrier()
    sys.stdout.flush()
    os._exit(0)  # taking the group down may end in an abort of its threads


def in_lines(text):
    return {int(size): float(ms) for size, ms in (line.split() for line in text.splitlines())}


def ours(args, ranks, memory, folder):
    run_all([[args.bin / "bench_allreduce", "--ranks", str(ranks), "--turns", "1", "--memory", memory,
              "--sizes", ",".join(map(str, SIZES))]], folder)
    said, size = {}, 0
    for line in (folder / "stdout0").read_text().splitlines():
        if match := LINE.match(line):
            said[match[1], size] = float(match[2])
        elif line[0].isdigit():
            size = int(line.split()[0])
    return said


def pytorch(args, ranks, _, folder):
    run_all([[args.python, os.path.abspath(__file__), "--torch-rank", str(rank), "--ranks", str(ranks), "--store",
              folder / "store"] for rank in range(ranks)], folder)
    return {("gloo of PyTorch", size): ms for size, ms in in_lines((folder / "stdout0").read_text()).items()}


def open_mpi(args, ranks, memory, folder):
    between = "self,tcp" if memory == "sent" else "self,vader"
    run_all([["mpirun", "--allow-run-as-root", "--oversubscribe", "--mca", "btl", between, "-n", str(ranks),
              args.bin / "bench_allreduce_mpi", *map(str, SIZES)]], folder)
    return {("Open MPI", size): ms for size, ms in in_lines((folder / "stdout0").read_text()).items()}


def sides_of(args):
    sides = [ours]
    if subprocess.run([args.python, "-c", "import torch"], capture_output=True, check=False).returncode == 0:
        sides.append(pytorch)
    else:
        print(f"no PyTorch in {args.python}: left out (--python)", file=sys.stderr)
    if (args.bin / "bench_allreduce_mpi").exists():
        sides.append(open_mpi)
    else:
        print("no bench_allreduce_mpi: Open MPI is left out (libopenmpi-dev)", file=sys.stderr)
    return sides


def turn_of(side, args, ranks, memory):
    """Once more where it hangs, which Gloo has been seen to do."""
    for _ in range(3):
        with tempfile.TemporaryDirectory(prefix="paceline.") as folder:
            try:
                return side(args, ranks, memory, Path(folder))
            except TimeoutError as hangs:
                print(f"{side.__name__}, {ranks} ranks: {hangs}; once more", file=sys.stderr)
    fail(f"{side.__name__}, {ranks} ranks: it hangs")


def compare(args, ranks, memory, sides):
    figures = {}
    for turn in range(args.turns):
        for side in sides if turn % 2 == 0 else reversed(sides):
            for of, ms in turn_of(side, args, ranks, memory).items():
                figures.setdefault(of, []).append(ms)
    for size in SIZES:
        medians = {name: statistics.median(ms) for (name, of), ms in figures.items() if of == size}
        peers = {name: ms for name, ms in medians.items() if name.startswith("gloo") or name == "Open MPI"}
        gloo = {name: ms for name, ms in peers.items() if name.startswith("gloo")}
        best = min((ms, name) for name, ms in medians.items() if name not in peers and name != "raw")
        line = {"benchmark": "allreduce_peers", "ranks": ranks, "memory": memory, "bytes": size, "turns": args.turns,
                "ours_ms": round(best[0], 4), "algorithm": best[1], "of_gloo": round(best[0] / min(gloo.values()), 3),
                "of_gloo_range": [round(extreme, 3) for extreme in of_turns(figures, size, best[1], gloo)]}
        if "Open MPI" in medians:
            line["of_open_mpi"] = round(best[0] / medians["Open MPI"], 3)
        if "raw" in medians:
            line["raw_of_ours"] = round(medians["raw"] / best[0], 3)
        line["ms"] = {name: round(ms, 4) for name, ms in sorted(medians.items())}
        line.update(load=round(os.getloadavg()[0], 1), tcp_congestion_control=congestion_control())
        yield line


def of_turns(figures, size, algorithm, gloo):
    """The least and the greatest of a turn's ratios, ours over the best of Gloo's."""
    peers = [figures[name, size] for name in gloo]
    ratios = [ms / min(one) for ms, one in zip(figures[algorithm, size], zip(*peers))]
    return min(ratios), max(ratios)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=Path, default=Path(__file__).resolve().parents[2] / "build/release/bin")
    parser.add_argument("--turns", type=int, default=15)
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--memory", choices=["sent", "shared"], nargs="+", default=["sent", "shared"])
    parser.add_argument("--python", default="/usr/bin/python3", help="that has PyTorch; default: Debian's")
    parser.add_argument("--json", type=Path, help="append the lines to this file, too")
    parser.add_argument("--torch-rank", type=int, help="be one process of PyTorch's (the script calls itself)")
    parser.add_argument("--store", help="with --torch-rank")
    args = parser.parse_args()
    if args.torch_rank is not None:
        torch_rank(args.torch_rank, args.ranks[0], args.store)
        return 0
    if not (args.bin / "bench_allreduce").exists():
        fail(f"{args.bin / 'bench_allreduce'} is not there: cmake --build build/release --target benchmarks (libgloo-dev)")
    processes.TIMEOUT_SECONDS = 100
    sides = sides_of(args)
    for memory in args.memory:
        for ranks in args.ranks:
            for line in compare(args, ranks, memory, sides):
                print(json.dumps(line), flush=True)
                if args.json:
                    with open(args.json, "a", encoding="utf-8") as file:
                        file.write(json.dumps(line) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
