#!/usr/bin/env python3
"""Where the processor time of a step of the parameter path goes: exchange.py's raw loop and Paceline's, each under `perf record`
of the whole machine, and what they did, in milliseconds of one core for each step, and how often a core changed threads.

    cmake --build build/release --target benchmarks
    tests/bench/profile_exchange.py [--bin build/release/bin] [--mb 4] [--workers 1] [--policy asp] [--transport tcp | ipc | shared]
                                    [--steps N] [--raw-threads 2] [--raw-messages] [--rest]

How samples are taken and counted, and what that wants: machine_profile.py. --steps wants to be large. --rest lists the functions of the rows that
say `other`. With --raw-messages the raw side is the client of small_messages.py, a message of 100 bytes there and one back,
whatever --mb says of ours. One JSON line for each of the two.
"""
import argparse
import json
import sys
import tempfile
from pathlib import Path

from exchange import BYTES_PER_RUN, ONE_SERVER, path, raw
from machine_profile import profile
from processes import fail
from small_messages import raw as message_there_and_back


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=Path, default=Path(__file__).resolve().parents[2] / "build/release/bin")
    parser.add_argument("--mb", type=float, default=4)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--policy", choices=["asp", "bsp"], default="asp")
    parser.add_argument("--transport", choices=["tcp", "ipc", "shared"], default="tcp")
    parser.add_argument("--steps", type=int, help="of each worker; default: as many as bring 16 GB up")
    parser.add_argument("--raw-threads", type=int, choices=[1, 2], default=2)
    parser.add_argument("--raw-messages", action="store_true")
    parser.add_argument("--rest", action="store_true")
    args = parser.parse_args()
    vars(args).update(ONE_SERVER)
    if args.raw_messages and args.transport == "shared":
        fail("profile_exchange: a raw message is sent; --raw-messages goes with tcp or ipc")
    if args.steps is None:
        args.steps = max(20, min(20_000, int(2 * BYTES_PER_RUN / (args.mb * 1e6 * args.workers))))
    raw_side = ("raw_messages", lambda *of: (message_there_and_back(of[0], *of[2:]),)) if args.raw_messages else ("raw", raw)
    for name, loop in (raw_side, ("paceline", path)):
        with tempfile.TemporaryDirectory(prefix="paceline.", dir="/dev/shm" if args.transport == "shared" else None) as made:
            line = {"benchmark": "profile_exchange", "loop": name, "mb": args.mb, "workers": args.workers, "policy": args.policy,
                    "transport": args.transport, "steps": args.steps}
            measured = profile(lambda: loop(args, int(args.mb * 1e6 / 4), args.steps, Path(made))[0], args.steps, args.rest)
            print(json.dumps(line | measured), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
