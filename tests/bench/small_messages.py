#!/usr/bin/env python3
"""Steps so small that only messages count: a model of 100 bytes, steps that compute nothing.

    cmake --build build/release --target benchmarks
    tests/bench/small_messages.py [--bin build/release/bin] [--pairs 15] [--steps 5000] [--clients 64] [--loops 5] [--policy asp]
                                  [--transport tcp] [--json FILE]

One worker: a step through paceline-server (gradient and report up, grant and parameters down) beside a message of 100
bytes there and one back over plain libzmq with the same hand-offs from thread to thread (exchange/raw_messages.cc). They
take turns, and who goes first changes from pair to pair; `ratio` is the median over the pairs of (raw seconds /
Paceline's seconds). Target 0.80. Both send one message each way: ours has a pull, a gradient and a report in it, and
parameters and a grant.

Many workers: `--clients` nodes in a closed loop on one server, all in one process (exchange/many_workers.cc). Targets:
p99 at most 3 x clients / throughput (`p99_of_limit` <= 1), and nobody below half the mean rate (`slowest_of_mean` >= 0.5);
the loop is run --loops times, and the figures are those of the run whose `p99_of_limit` is the median.

Two JSON lines; exit status 1 when a target is missed.
"""
import argparse
import json
import os
import re
import statistics
import sys
import tempfile
from pathlib import Path

from exchange import CONFIG, ONE_SERVER, WARM_UP_STEPS, congestion_control, endpoints, path, seconds_per_step
from processes import run_all, say

FLOATS = 25


def raw(args, steps, folder):
    endpoint, program = endpoints(args, 1, folder)[0], args.bin / "bench_raw_messages"
    run_all([[program, "server", endpoint, "1"], [program, "worker", endpoint, str(steps), str(WARM_UP_STEPS)]], folder)
    return seconds_per_step(folder, 1, 1)


def messages_of_a_step(steps, folder):
    """Up and down, by the server's log; joins, heartbeats and the end are among them."""
    output = re.search(r"(\d+) messages came and (\d+) left", (folder / "run/server.log").read_text())
    return [round(int(count) / (steps + WARM_UP_STEPS), 3) for count in output.groups()]


def round_trips(args):
    args.workers, pairs, messages = 1, [], []

    def paceline(given, steps, folder):
        seconds = path(given, FLOATS, steps, folder)[0]
        messages.append(messages_of_a_step(steps, folder))
        return seconds

    loops = {"raw": raw, "paceline": paceline}
    for n in range(args.pairs):
        one = {}
        for name in loops if n % 2 == 0 else reversed(loops):
            with tempfile.TemporaryDirectory(prefix="paceline.") as folder:
                one[name] = loops[name](args, args.steps, Path(folder))
        pairs.append(one)
    ratios = sorted(one["raw"] / one["paceline"] for one in pairs)
    return {"benchmark": "round_trips", "bytes": 4 * FLOATS, "policy": args.policy, "steps": args.steps, "pairs": args.pairs,
            **{f"{name}_us": round(1e6 * statistics.median(one[name] for one in pairs), 1) for name in loops},
            "ratio": round(statistics.median(ratios), 3), "ratio_range": [round(ratios[0], 3), round(ratios[-1], 3)],
            "messages_up": statistics.median(up for up, _ in messages),
            "messages_down": statistics.median(down for _, down in messages)}


def closed_loop(args):
    args.workers = args.clients
    loops = sorted((one_closed_loop(args) for _ in range(args.loops)), key=lambda one: one["p99_of_limit"])
    return {**loops[len(loops) // 2], "loops": len(loops),
            "p99_of_limit_range": [loops[0]["p99_of_limit"], loops[-1]["p99_of_limit"]],
            "slowest_of_mean_least": min(one["slowest_of_mean"] for one in loops)}


def one_closed_loop(args):
    steps = max(50, args.steps // 10)
    with tempfile.TemporaryDirectory(prefix="paceline.") as made:
        folder, config = Path(made), Path(made) / "config.yaml"
        values = {"out": folder / "run", "workers": args.clients, "shards": 1, "frame": args.frame, "policy": args.policy,
                  "pull_order": args.pull_order,
                  "steps": (steps + WARM_UP_STEPS) * args.clients, "shared_memory": "off", "apply_threads": 1, "keys": "null",
                  "endpoints": ", ".join(f'"{e}"' for e in endpoints(args, 1, folder))}
        config.write_text(CONFIG.format(**values))
        run_all([[args.bin / "paceline-server", config],
                 [args.bin / "bench_many_workers", str(FLOATS), str(WARM_UP_STEPS), config]], folder)
        output = json.loads((folder / "stdout1").read_text())
    limit_ms = 1e3 * 3 * args.clients / output["steps_per_second"]
    return {"benchmark": "closed_loop", "policy": args.policy, "steps": steps, **output, "p99_limit_ms": round(limit_ms, 3),
            "p99_of_limit": round(output["p99_ms"] / limit_ms, 3)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=Path, default=Path(__file__).resolve().parents[2] / "build/release/bin")
    parser.add_argument("--pairs", type=int, default=15)
    parser.add_argument("--steps", type=int, default=5000, help="of one worker; each of many does a tenth")
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--loops", type=int, default=5, help="of many workers")
    parser.add_argument("--policy", choices=["asp", "bsp"], default="asp")
    parser.add_argument("--pull-order", choices=["auto", "before_push", "after_push"], default="auto", help="of ours, under asp")
    parser.add_argument("--transport", choices=["tcp", "ipc"], default="tcp")
    parser.add_argument("--json", type=Path, help="append the lines to this file, too")
    args = parser.parse_args()
    vars(args).update(ONE_SERVER | {"pull_order": args.pull_order})
    failed = False
    for measure in (round_trips, closed_loop):
        result = measure(args) | {"pull_order": args.pull_order, "transport": args.transport,
                                  "tcp_congestion_control": congestion_control(),
                                  "load": round(os.getloadavg()[0], 1)}
        say(result, args.json)
        failed = failed or result.get("ratio", 1) < 0.8 or result.get("p99_of_limit", 0) > 1
        failed = failed or result.get("slowest_of_mean_least", 1) < 0.5
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
