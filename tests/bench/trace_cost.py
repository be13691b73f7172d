#!/usr/bin/env python3
"""What a trace costs training: the same run with `run.trace` and without, in turns, who goes first changing from pair to pair.

    scripts/build.sh
    tests/bench/trace_cost.py CONFIG [--bin build/release/bin] [--pairs 15] [key.path=value …]

CONFIG is run by scripts/run_local.sh. One JSON line: seconds a version with and without, medians over the pairs, the pairs'
ratios and their median; how many events a run recorded. What is written after the training is not in it (docs/TRACE.md). Exit
status 1 when that median is above --limit (default 1.02), or a run failed or recorded nothing.
"""
import json
import sys

from paired_runs import parser, run_pairs


def main():
    options = parser(__doc__)
    options.set_defaults(pairs=15)
    options.add_argument("--limit", type=float, default=1.02)
    args = options.parse_intermixed_args()  # as its usage says: overrides after options
    result, summaries = run_pairs(args, ["run.trace=true"], ["run.trace=false"])
    events = [summary["trace_events"] for summary in summaries]
    print(json.dumps({**result, "events": events}))
    sys.exit(1 if result["ratio"] > args.limit or min(events) == 0 else 0)


if __name__ == "__main__":
    main()
