#!/usr/bin/env python3
"""Where the processor time of a training step goes: through_server.py's loops, each under `perf record` of the whole
machine, and what they did, in milliseconds of one core for each step, and how often a core changed threads.

    cmake --build build/release --target benchmarks
    tests/bench/profile_through_server.py [--bin build/release/bin] [--model cifar_cnn_small] [--policy ssp]
                                          [--refresh-clocks 1] [--transport shared] [--steps 1000]
                                          [--no-huge-pages] [--rest]

How samples are taken and counted, and what that wants: machine_profile.py. `computing` is oneDNN.
--rest lists the functions of the rows that say `other`. One JSON line for each.
"""
import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from machine_profile import profile
from through_server import REFRESH_CLOCKS, SHARED_MEMORY, STEPS, SYNC, bare, handed_over, through_server


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=Path, default=Path(__file__).resolve().parents[2] / "build/release/bin")
    parser.add_argument("--model", choices=STEPS, default="cifar_cnn_small")
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--policy", choices=SYNC, default="ssp")
    parser.add_argument("--refresh-clocks", default=REFRESH_CLOCKS[0])
    parser.add_argument("--transport", choices=SHARED_MEMORY, default="shared")
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--no-huge-pages", action="store_true")
    parser.add_argument("--rest", action="store_true")
    args = parser.parse_args()
    args.device = "cpu"
    sync = SYNC[args.policy].format(args.refresh_clocks)
    with tempfile.TemporaryDirectory(prefix="paceline.") as made:
        args.data = Path(made) / "data"
        subprocess.run([args.bin / "paceline", "data", "synthesize", "--out", args.data, "--train", "5000", "--test", "1000"],
                       check=True, stdout=subprocess.DEVNULL)
        for loop in (bare, handed_over, through_server):
            folder = Path(made) / loop.__name__
            folder.mkdir()
            said = {}
            def run():
                said.update(loop(args, args.model, sync, args.steps, folder))
                return said["wall"] / args.steps
            line = {"benchmark": "profile_through_server", "loop": loop.__name__, "model": args.model, "policy": args.policy,
                    **({"refresh_clocks": args.refresh_clocks} if args.policy == "ssp" else {}), "transport": args.transport,
                    "batch": args.batch, "steps": args.steps, **({"huge_pages": False} if args.no_huge_pages else {})}
            print(json.dumps(line | profile(run, args.steps, args.rest) | {"p50_ms": said["p50"]}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
