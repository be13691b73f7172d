#!/usr/bin/env python3
"""A measurement of scripts/bench.sh: run, unless it has been, and kept.

    tests/bench/once.py LINES.jsonl PROGRAMS [--benchmark NAME] [--google] [--when TEXT] -- COMMAND…

What the command says in JSON, one object a line, is added to the file when the command has ended, each line with the
command that measured it (`measured`) and with PROGRAMS, which stands for what was built and for the scripts. A command that
the file has lines of, by the same PROGRAMS and `--when`, is not run again, unless what it was to measure was left out: so a
run of many measurements can be cut and gone on with.

--benchmark names lines that do not say themselves which benchmark they are of; --google has a Google Benchmark program write
its rows, which become lines.
Exit status: the command's: 0, or 1 when a figure missed its target; anything else measured nothing, and nothing is kept.
"""
import argparse
import json
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from processes import fail

# Of a Google Benchmark row: which of how many it is, and what its name says already.
NOT_KEPT = {"family_index", "per_family_instance_index", "run_name", "run_type", "repetitions", "repetition_index", "threads",
            "iterations", "time_unit"}


def lines_of(file):
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def run(command, out=None):
    """Runs it to its end, says what it says; its exit status and the JSON lines."""
    measured = []
    # A SIGTERM or SIGHUP reaches both: the command removes what it made, and this waits for it.
    child = subprocess.Popen(["setpriv", "--pdeathsig", "TERM", *command], stdout=subprocess.PIPE, text=True)
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:  # nohup
            signal.signal(number, lambda *_: child.terminate())
    for line in child.stdout:
        print(line, end="", flush=True)
        if out is None and line.startswith("{"):
            measured.append(json.loads(line))
    return child.wait(), measured


def run_google(command):
    with tempfile.NamedTemporaryFile(prefix="paceline.") as out:
        status, _ = run([*command, f"--benchmark_out={out.name}", "--benchmark_out_format=json"], out)
        output = Path(out.name).read_text()
    rows = json.loads(output)["benchmarks"] if output.strip() else []
    return status, [{key: value for key, value in row.items() if key not in NOT_KEPT} for row in rows]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("lines", type=Path)
    parser.add_argument("programs")
    parser.add_argument("--benchmark")
    parser.add_argument("--google", action="store_true")
    parser.add_argument("--when")
    parser.add_argument("command", nargs="+")
    args = parser.parse_args()
    about = {"measured": " ".join(args.command), "programs": args.programs} | ({"when": args.when} if args.when else {})
    kept = lines_of(args.lines)
    before = [line for line in kept if all(line.get(key) == about.get(key) for key in ("measured", "programs", "when"))]
    if before and not any("left_out" in line for line in before):
        print(f"bench: measured already: {about['measured']}", file=sys.stderr)
        return 0
    status, measured = run_google(args.command) if args.google else run(args.command)
    if status not in (0, 1):
        return status if status > 0 else 128 - status
    if not measured:
        fail(f"{args.command[0]} ended with status {status} and measured nothing")
    name = {"benchmark": args.benchmark} if args.benchmark else {}
    kept = [line for line in kept if line not in before] + [name | line | about for line in measured]
    written = args.lines.with_name(args.lines.name + ".new")
    written.write_text("".join(json.dumps(line) + "\n" for line in kept))
    written.replace(args.lines)
    return status


if __name__ == "__main__":
    sys.exit(main())
