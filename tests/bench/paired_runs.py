"""The same run with and without something, in turns, who goes first changing from pair to pair. For checkpoint_cost.py,
trace_cost.py and replica_cost.py."""
import argparse
import json
import statistics
import subprocess
import tempfile
from pathlib import Path

from processes import fail

ROOT = Path(__file__).resolve().parents[2]


def parser(description):
    made = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("config")
    made.add_argument("overrides", nargs="*")
    made.add_argument("--bin", default=ROOT / "build/release/bin")
    made.add_argument("--pairs", type=int, default=5)
    return made


def _summary_of(args, out, overrides):
    command = [ROOT / "scripts/run_local.sh", args.config, "--out", out, "--force", "--bin", args.bin, *args.overrides,
               *overrides]
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        fail(f"{' '.join(map(str, command))}: {done.stderr.strip()}")
    return json.loads((out / "summary.json").read_text(encoding="utf-8"))


def run_pairs(args, with_it, without, summary_of=_summary_of):
    """Overrides of the two kinds; how one is run: summary_of(args, run directory, overrides). (seconds a version: medians and the median of the pairs' ratios, summaries of the runs with
    it)."""
    kinds = {"without": without, "with": with_it}
    seconds = {kind: [] for kind in kinds}
    summaries = []
    with tempfile.TemporaryDirectory() as folder:
        for pair in range(args.pairs):
            for kind in list(kinds)[:: 1 if pair % 2 == 0 else -1]:
                summary = summary_of(args, Path(folder) / kind, kinds[kind])
                seconds[kind].append(summary["wall_seconds"] / summary["final_version"])
                if kind == "with":
                    summaries.append(summary)
    ratios = [a / b for a, b in zip(seconds["with"], seconds["without"])]
    return {"seconds_with": statistics.median(seconds["with"]), "seconds_without": statistics.median(seconds["without"]),
            "ratio": statistics.median(ratios), "ratios": sorted(round(ratio, 4) for ratio in ratios),
            "pairs": args.pairs}, summaries
