#!/usr/bin/env python3
"""What scripts/bench.sh measured, as tables to read and as one JSON file.

    tests/bench/table.py LINES.jsonl [--json FILE]

Of each line the values that differ from measurement to measurement are shown, one table for each `benchmark`. The file has
the machine, the commit and the lines.
"""
import argparse
import json
import os
import platform
import subprocess
import sys
from pathlib import Path

# What a table leaves out: it is the same in all rows, too long for a row, or in another column already.
LEFT_OUT = {"benchmark", "frame_bytes", "batch", "phases_p50_ms", "ratios", "tcp_congestion_control", "bare_p50_ms",
            "handed_over_p50_ms", "server_p50_ms", "bare_steps_per_second", "handed_over_steps_per_second",
            "server_steps_per_second", "measured", "programs"}


def text_of(value):
    if isinstance(value, float):
        return f"{value:.4g}" if abs(value) < 1000 else f"{value:.0f}"
    if isinstance(value, list):
        return "-".join(map(text_of, value))
    return str(value)


def print_table(title, rows):
    columns = [key for key in dict.fromkeys(key for row in rows for key in row) if key not in LEFT_OUT]
    table = [columns] + [[text_of(row.get(key, "")) for key in columns] for row in rows]
    widths = [max(len(line[n]) for line in table) for n in range(len(columns))]
    print(f"\n{title}")
    for line in table:
        print("  " + "  ".join(cell.rjust(width) for cell, width in zip(line, widths)).rstrip())


def field(file, name):
    """The first line `name: value` of a file of /proc."""
    with open(file, encoding="utf-8") as lines:
        return next((line.split(":", 1)[1].strip() for line in lines if line.split(":")[0].strip() == name), "")


def instruction_set():
    """Which of the optimizers' loops such a processor runs (common/params/kernels.cc)."""
    flags = set(field("/proc/cpuinfo", "flags").split())
    if {"avx512f", "avx512vl", "avx512dq"} <= flags:
        return "avx512"
    return "avx2" if "avx2" in flags else "plain"


def git(*arguments):
    """What git says of this checkout; None where there is none, or no git."""
    try:
        return subprocess.run(["git", "-C", Path(__file__).resolve().parent, *arguments], capture_output=True, text=True,
                              check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None


def machine():
    """Where and of what the lines are, at the time of this call. `changed`: files that differ from the commit."""
    changed = git("status", "--porcelain", "--untracked-files=no")
    return {"processor": field("/proc/cpuinfo", "model name") or platform.machine(), "cores": os.cpu_count(),
            "instruction_set": instruction_set(), "memory_mb": int(field("/proc/meminfo", "MemTotal").split()[0]) // 1000,
            "kernel": platform.release(), "load": round(os.getloadavg()[0], 1), "commit": git("rev-parse", "HEAD"),
            "changed": None if changed is None else len(changed.splitlines())}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("lines", type=Path)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    measured = [json.loads(line) for line in args.lines.read_text().splitlines()]
    everything = {"machine": machine(), "measurements": measured}
    print("  ".join(f"{key} {value}" for key, value in everything["machine"].items()))
    for benchmark in dict.fromkeys(line["benchmark"] for line in measured):
        print_table(benchmark, [line for line in measured if line["benchmark"] == benchmark])
    if args.json:
        args.json.write_text(json.dumps(everything, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
