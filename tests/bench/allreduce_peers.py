#!/usr/bin/env python3
"""An all-reduce of ours beside Debian's Gloo, PyTorch's and Open MPI's, in turns on this machine.

    cmake --build build/release --target benchmarks
    tests/bench/allreduce_peers.py [--bin build/release/bin] [--turns 15] [--ranks 2 4] [--memory sent shared] [--ms 100]
                                   [--seconds N] [--python PYTHON-WITH-TORCH] [--json FILE] [--keys]

`sent`: over tcp on the loopback, ours and Gloo's, and a raw loop of the same bytes; `shared`: ours and Open MPI's in shared
memory, Gloo's as before. A turn starts the processes of each side anew, one side after the other, and who begins changes. A figure is
the time of one reduction of so many as take --ms, after two that are not counted; printed are medians over the turns, and
ratios of medians: ours (`auto`: what a run would choose) over the best of Gloo's, over Open MPI's, and the raw loop over ours. `best`
is the best of our algorithms, known afterwards. What else takes 100 times as long as the best in three turns is left out of the
others. With --seconds the last turn is the last that is over by then. Who is missing (libgloo-dev, python3-torch, openmpi-bin,
libopenmpi-dev) is left out and said. Exit status 1 where a figure misses its target, or what a target asks for was not measured
(`missed`). --keys: ours are sealed, as in a run with keys.
"""
import argparse
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import processes
from exchange import congestion_control
from processes import fail, run_all, say

SIZES = [4096, 262144, 4194304, 67108864]
HOPELESS = 100  # times as long as the best,
HOPELESS_AFTER = 3  # in so many turns
JUDGED = ("auto", "raw")  # which have every turn
KIB, MIB = 1024, 1024 * 1024
# At most, of the best of these peers' time, by memory: from that size on.
ASKED = {"sent": [(4 * KIB, "of_gloo", 0.8)],
         "shared": [(256 * KIB, "of_peers", 1.0), (64 * MIB, "of_peers", 0.6)]}
ASKED_OF_RAW = (4 * MIB, 0.85)  # at least, of what is sent
LINE = re.compile(r"^  (\S.*?) +median +([0-9.]+) ms")


def torch_rank(rank, ranks, store, ms):
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
        count = torch.tensor([min(400.0, max(1.0, 1e-3 * ms / (time.perf_counter() - begin))) if rank == 0 else 0.0])
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


def ours(args, ranks, memory, folder, without):
    run_all([[args.bin / "bench_allreduce", "--ranks", str(ranks), "--turns", "1", "--memory", memory, "--ms", str(args.ms),
              "--sizes", ",".join(map(str, SIZES)), "--keys", "yes" if args.keys else "no",
              "--without", ",".join(f"{size}:{name}" for name, size in sorted(without))]], folder)
    output, size = {}, 0
    for line in (folder / "stdout0").read_text().splitlines():
        if match := LINE.match(line):
            output[match[1], size] = float(match[2])
        elif line[0].isdigit():
            size = int(line.split()[0])
    return output


def pytorch(args, ranks, _, folder, without):
    del without  # it has one way for each size
    run_all([[args.python, os.path.abspath(__file__), "--torch-rank", str(rank), "--ranks", str(ranks), "--store",
              folder / "store", "--ms", str(args.ms)] for rank in range(ranks)], folder)
    return {("gloo of PyTorch", size): ms for size, ms in in_lines((folder / "stdout0").read_text()).items()}


def open_mpi(args, ranks, memory, folder, without):
    del without
    between = "self,tcp" if memory == "sent" else "self,vader"
    run_all([["mpirun", "--allow-run-as-root", "--oversubscribe", "--mca", "btl", between, "-n", str(ranks),
              args.bin / "bench_allreduce_mpi", str(args.ms), *map(str, SIZES)]], folder)
    return {("Open MPI", size): ms for size, ms in in_lines((folder / "stdout0").read_text()).items()}


def sides_of(args):
    sides = [ours]
    if subprocess.run([args.python, "-c", "import torch"], capture_output=True, check=False).returncode == 0:
        sides.append(pytorch)
    else:
        print(f"no PyTorch in {args.python}: left out (--python)", file=sys.stderr)
    if (args.bin / "bench_allreduce_mpi").exists() and shutil.which("mpirun"):
        sides.append(open_mpi)
    else:
        print("no bench_allreduce_mpi or no mpirun: Open MPI is left out (libopenmpi-dev, openmpi-bin)", file=sys.stderr)
    return sides


def turn_of(side, args, ranks, memory, without):
    """Once more where it hangs, which Gloo has been seen to do."""
    for _ in range(3):
        with tempfile.TemporaryDirectory(prefix="paceline.") as folder:
            try:
                return side(args, ranks, memory, Path(folder), without)
            except TimeoutError as hangs:
                print(f"{side.__name__}, {ranks} ranks: {hangs}; once more", file=sys.stderr)
    fail(f"{side.__name__}, {ranks} ranks: it hangs")


class Comparison:
    """Of so many ranks, with one kind of memory."""

    def __init__(self, memory, ranks):
        self.memory, self.ranks = memory, ranks
        self.figures = {}  # of (name, size): of each turn
        self.without = set()

    def turn(self, args, sides):
        for side in sides:
            for of, ms in turn_of(side, args, self.ranks, self.memory, self.without).items():
                self.figures.setdefault(of, []).append(ms)
        for size in SIZES:
            medians = self.medians(size)
            best = min(medians.values())
            self.without |= {(name, size) for name, ms in medians.items() if name not in JUDGED and
                             ms > HOPELESS * best and len(self.figures[name, size]) >= HOPELESS_AFTER}

    def medians(self, size):
        return {name: statistics.median(ms) for (name, of), ms in self.figures.items() if of == size}

    def line(self, args, size, turns):
        medians = self.medians(size)
        peers = {name: ms for name, ms in medians.items() if name.startswith("gloo") or name == "Open MPI"}
        gloo = {name: ms for name, ms in peers.items() if name.startswith("gloo")}
        best = min((ms, name) for name, ms in medians.items() if name not in peers and name not in JUDGED)
        line = {"benchmark": "allreduce_peers", "ranks": self.ranks, "memory": self.memory, "bytes": size, "turns": turns,
                "keys": args.keys, "auto_ms": round(medians["auto"], 4), "best_ms": round(best[0], 4), "best": best[1],
                "of_gloo": round(medians["auto"] / min(gloo.values()), 3),
                "of_gloo_range": [round(extreme, 3) for extreme in self.of_turns(size, gloo)],
                "of_peers": round(medians["auto"] / min(peers.values()), 3)}
        if "Open MPI" in medians:
            line["of_open_mpi"] = round(medians["auto"] / medians["Open MPI"], 3)
        if "raw" in medians:
            line["raw_of_ours"] = round(medians["raw"] / medians["auto"], 3)
        line["ms"] = {name: round(ms, 4) for name, ms in sorted(medians.items())}
        line["missed"] = list(self.missed(line, size))
        line.update(load=round(os.getloadavg()[0], 1), tcp_congestion_control=congestion_control())
        return line

    def missed(self, line, size):
        asked = {of: most for smallest, of, most in ASKED[self.memory] if size >= smallest}
        for of, most in asked.items():
            if line[of] > most:
                yield f"{of}: {line[of]}, at most {most} asked"
        if "of_peers" in asked and "of_open_mpi" not in line:
            yield "of_peers: Open MPI was not measured"
        if self.memory != "sent" or size < ASKED_OF_RAW[0]:
            return
        if "raw_of_ours" not in line:
            yield "raw_of_ours: not measured"
        elif line["raw_of_ours"] < ASKED_OF_RAW[1]:
            yield f"raw_of_ours: {line['raw_of_ours']}, at least {ASKED_OF_RAW[1]} asked"

    def of_turns(self, size, gloo):
        """The least and the greatest of a turn's ratios, ours over the best of Gloo's that were in every turn."""
        ours = self.figures["auto", size]
        peers = [of for name in gloo if len(of := self.figures[name, size]) == len(ours)]
        ratios = [ms / min(one) for ms, one in zip(ours, zip(*peers))]
        return min(ratios), max(ratios)


def compare(args, sides):
    """All comparisons, and how many turns each has had: all take turns with each other, too."""
    all_ = [Comparison(memory, ranks) for memory in args.memory for ranks in args.ranks]
    began, longest = time.monotonic(), 0.0
    for turn in range(args.turns):
        turn_began = time.monotonic()
        if args.seconds and turn > 0 and turn_began - began + longest > args.seconds:
            print(f"{turn} of {args.turns} turns within {args.seconds} s", file=sys.stderr)
            return all_, turn
        for one in all_:
            one.turn(args, sides[:: 1 if turn % 2 == 0 else -1])
        longest = max(longest, time.monotonic() - turn_began)
    return all_, args.turns


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=Path, default=Path(__file__).resolve().parents[2] / "build/release/bin")
    parser.add_argument("--turns", type=int, default=15)
    parser.add_argument("--ms", type=float, default=100.0, help="of a figure")
    parser.add_argument("--seconds", type=float, help="begin no turn that would not end by then")
    parser.add_argument("--keys", action="store_true", help="ours are sealed")
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--memory", choices=["sent", "shared"], nargs="+", default=["sent", "shared"])
    parser.add_argument("--python", default="/usr/bin/python3", help="that has PyTorch; default: Debian's")
    parser.add_argument("--json", type=Path, help="append the lines to this file, too")
    parser.add_argument("--torch-rank", type=int, help="be one process of PyTorch's (the script calls itself)")
    parser.add_argument("--store", help="with --torch-rank")
    args = parser.parse_args()
    if args.torch_rank is not None:
        torch_rank(args.torch_rank, args.ranks[0], args.store, args.ms)
        return 0
    if not (args.bin / "bench_allreduce").exists():
        fail(f"{args.bin / 'bench_allreduce'} is not there: cmake --build build/release --target benchmarks (libgloo-dev)")
    processes.TIMEOUT_SECONDS = 100
    comparisons, turns = compare(args, sides_of(args))
    missed = False
    for one in comparisons:
        for size in SIZES:
            line = one.line(args, size, turns)
            missed = missed or bool(line["missed"])
            say(line, args.json)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
