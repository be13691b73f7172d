#!/usr/bin/env python3
"""What checkpoints cost training: the same run with and without them, in turns, who goes first changing from pair to pair.

    scripts/build.sh
    tests/bench/checkpoint_cost.py CONFIG [--bin build/release/bin] [--pairs 5] [--every 5s] [key.path=value …]

CONFIG is run by scripts/run_local.sh; it needs `data`, and runs that last several times --every. One JSON line: seconds a
version with and without, medians over the pairs, and the median of the pairs' ratios; how many checkpoints a run wrote. Exit
status 1 when that median is above --limit (default 1.05), or a run failed or wrote no checkpoint.
"""
import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from processes import fail

ROOT = Path(__file__).resolve().parents[2]


def summary_of(args, out, overrides):
    command = [ROOT / "scripts/run_local.sh", args.config, "--out", out, "--force", "--bin", args.bin, *args.overrides,
               *overrides]
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        fail(f"{' '.join(map(str, command))}: {done.stderr.strip()}")
    return json.loads((out / "summary.json").read_text(encoding="utf-8"))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("config")
    parser.add_argument("overrides", nargs="*")
    parser.add_argument("--bin", default=ROOT / "build/release/bin")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--every", default="5s")
    parser.add_argument("--limit", type=float, default=1.05)
    args = parser.parse_intermixed_args()  # as its usage says: overrides behind options
    kinds = {"without": ["checkpoint.every=null"], "with": [f"checkpoint.every={args.every}"]}
    seconds = {kind: [] for kind in kinds}
    written = []
    with tempfile.TemporaryDirectory() as folder:
        for pair in range(args.pairs):
            for kind in list(kinds)[:: 1 if pair % 2 == 0 else -1]:
                summary = summary_of(args, Path(folder) / kind, kinds[kind])
                seconds[kind].append(summary["wall_seconds"] / summary["final_version"])
                if kind == "with":
                    written.append(summary["checkpoints"])
    ratio = statistics.median(a / b for a, b in zip(seconds["with"], seconds["without"]))
    print(json.dumps({"seconds_with": statistics.median(seconds["with"]),
                      "seconds_without": statistics.median(seconds["without"]), "ratio": ratio,
                      "checkpoints": written, "pairs": args.pairs}))
    sys.exit(1 if ratio > args.limit or min(written) == 0 else 0)


if __name__ == "__main__":
    main()
