#!/usr/bin/env python3
"""How many instructions a step takes that is nothing but messages: of the server and of the worker, all their threads and
libraries, without the kernel's. Counted by valgrind's callgrind, so a busy machine changes nothing but the time it takes.

    cmake --build build/release --target benchmarks
    tests/bench/instructions.py [--bin build/release/bin] [--steps 2000] [--policy asp] [--functions N]

Ours is small_messages.py's step of one worker, the raw side its message there and one back. Each is run twice, with --steps
and a quarter of them: the difference is of steps alone. --functions N lists ours that have the most of their own. Wants
valgrind. One JSON line; thousands of instructions a step.
"""
import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from exchange import ONE_SERVER, path
from processes import fail
from small_messages import FLOATS, raw

SIDES = {"raw": {"server": "bench_raw_messages", "worker": "bench_raw_messages"},
         "paceline": {"server": "paceline-server", "worker": "bench_path_worker"}}
WRAPPER = """#!/bin/sh
role=server
case "${{0##*/}} ${{1##*/}}" in *_worker\ * | *\ worker) role=worker ;; esac
exec valgrind -q --tool=callgrind "--callgrind-out-file={folder}/$role.callgrind" "{program}" "$@"
"""


def wrapped(args, folder):
    """A folder with programs that run those of args.bin under valgrind, each into the folder."""
    made = folder / "bin"
    made.mkdir()
    for program in args.bin.iterdir():
        wrapper = made / program.name
        wrapper.write_text(WRAPPER.format(folder=folder, program=program))
        wrapper.chmod(0o755)
    return made


def own_of_functions(callgrind):
    """Instructions of each function itself, by its name and file."""
    said = subprocess.run(["callgrind_annotate", "--threshold=100", callgrind], capture_output=True, text=True, check=True)
    found = re.findall(r"^\s*([\d,]+) \(\s*[\d.]+%\)\s+(.*)$", said.stdout, re.MULTILINE)
    return {name: int(count.replace(",", "")) for count, name in found if name != "PROGRAM TOTALS"}


def count(args, side, steps):
    """By role: all instructions of a run, and by function."""
    with tempfile.TemporaryDirectory(prefix="paceline.") as made:
        folder = Path(made)
        run = argparse.Namespace(**vars(args) | {"bin": wrapped(args, folder)})
        raw(run, steps, folder) if side == "raw" else path(run, FLOATS, steps, folder)
        counted = {}
        for role in SIDES[side]:
            out = folder / f"{role}.callgrind"
            total = int(re.search(r"^summary: (\d+)", out.read_text(), re.MULTILINE).group(1))
            counted[role] = total, own_of_functions(out) if args.functions else {}
        return counted


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=Path, default=Path(__file__).resolve().parents[2] / "build/release/bin")
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--policy", choices=["asp", "bsp"], default="asp")
    parser.add_argument("--functions", type=int, default=0)
    args = parser.parse_args()
    vars(args).update(ONE_SERVER, workers=1, transport="tcp", bin=args.bin.resolve())
    if shutil.which("valgrind") is None:
        fail("instructions: there is no valgrind")
    few = args.steps // 4
    result = {"benchmark": "instructions", "policy": args.policy, "steps": args.steps}
    for side in SIDES:
        long, short = count(args, side, args.steps), count(args, side, few)
        for role in SIDES[side]:
            result[f"{side}_{role}"] = round((long[role][0] - short[role][0]) / (args.steps - few) / 1e3, 1)
            if side == "raw":
                continue
            own = {name: (n - short[role][1].get(name, 0)) / (args.steps - few) for name, n in long[role][1].items()}
            for name in sorted(own, key=own.get, reverse=True)[:args.functions]:
                print(f"{role} {own[name]:8.0f}  {name[:150]}", file=sys.stderr)
    print(json.dumps(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
