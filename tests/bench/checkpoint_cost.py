#!/usr/bin/env python3
"""What checkpoints cost training: the same run with and without them, in turns, who goes first changing from pair to pair.

    scripts/build.sh
    tests/bench/checkpoint_cost.py CONFIG [--bin build/release/bin] [--pairs 5] [--every 5s] [key.path=value …]

CONFIG is run by scripts/run_local.sh; it needs `data`, and runs that last several times --every. One JSON line: seconds a
version with and without, medians over the pairs, and the median of the pairs' ratios; how many checkpoints a run wrote. Exit
status 1 when that median is above --limit (default 1.05), or a run failed or wrote no checkpoint.
"""
import json
import sys

from paired_runs import parser, run_pairs


def main():
    options = parser(__doc__)
    options.add_argument("--every", default="5s")
    options.add_argument("--limit", type=float, default=1.05)
    args = options.parse_intermixed_args()  # as its usage says: overrides after options
    result, summaries = run_pairs(args, [f"checkpoint.every={args.every}"], ["checkpoint.every=null"])
    written = [summary["checkpoints"] for summary in summaries]
    print(json.dumps({**result, "checkpoints": written}))
    sys.exit(1 if result["ratio"] > args.limit or min(written) == 0 else 0)


if __name__ == "__main__":
    main()
