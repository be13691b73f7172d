#!/usr/bin/env python3
"""One cell of the DTSSP experiment (configs/dtssp_paper.yaml) as a run of daemons on this machine, computed on a GPU.

    tests/bench/gpu_cell.py [--bin build/release/bin] [--data CIFAR10_DIR] [--iterations 100000] [--precision tf32]
                            [--learning-rate 0.00001] [--out runs/gpu_cell] [key.path=value …]

--learning-rate: the configuration's 1e-4, which is the paper's, 16 steps of Adam a version on old parameters do not bear on
every data set (docs/EXPERIMENTS.md); a network that has died trains as fast and learns nothing.

4 nodes x 4 threads, mini-batches of 128, DTSSP from 3 within 3 to 10, at full speed: no pace is emulated. --data: CIFAR-10 in
its binary format; without it, generated data of the same size. One JSON line: how long it took, what that is for 100,000
iterations where there were fewer (`seconds_whole`), and the accuracy reached. --device cpu tries the script itself.
Exit status: 1 where that many or more were asked for and 100,000 take longer than --limit seconds, 3 when nothing was measured.
"""
import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from processes import fail

ROOT = Path(__file__).resolve().parents[2]
WHOLE = 100000  # iterations, the paper's


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("overrides", nargs="*")
    parser.add_argument("--bin", type=Path, default=ROOT / "build/release/bin")
    parser.add_argument("--data", type=Path)
    parser.add_argument("--iterations", type=int, default=WHOLE)
    parser.add_argument("--precision", default="tf32", choices=("fp32", "tf32", "bf16", "fp16"))
    parser.add_argument("--learning-rate", type=float, default=1e-5)
    parser.add_argument("--out", type=Path, default=ROOT / "runs/gpu_cell")
    parser.add_argument("--limit", type=float, default=480.0)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="paceline.") as made:
        data = ["data.kind=cifar10", f"data.path={args.data.resolve()}"] if args.data else [f"data.path={made}/data"]
        if not args.data:
            subprocess.run([args.bin / "paceline", "data", "synthesize", "--out", f"{made}/data", "--train", "50000", "--test",
                            "10000"], check=True, stdout=subprocess.DEVNULL)
        gpu = ["train.device=cuda", f"train.precision={args.precision}"] if args.device == "cuda" else []
        gpu += ["train.on_nan=skip"] if args.precision == "fp16" else []
        # The same as scripts/reproduce_dtssp.sh --full, whose runs are simulated.
        command = [ROOT / "scripts/run_local.sh", ROOT / "configs/dtssp_paper.yaml", "--out", args.out, "--force", "--bin",
                   args.bin, *data, "data.augment=true", "train.eval_every_clocks=100",
                   f"train.optimizer.lr={args.learning_rate:.9f}", f"train.total_iterations={args.iterations}", *gpu,
                   *args.overrides]
        # pdeathsig: what ends this ends the run, in order.
        done = subprocess.run(["setpriv", "--pdeathsig", "TERM", *map(str, command)], stdout=sys.stderr, check=False)
    if done.returncode != 0:
        fail(f"{' '.join(map(str, command))}: exit status {done.returncode}")
    summary = json.loads((args.out / "summary.json").read_text(encoding="utf-8"))
    whole = summary["wall_seconds"] * WHOLE / summary["iterations"]
    limit = args.limit if args.iterations >= WHOLE else None
    print(json.dumps({"benchmark": "gpu_cell", "data": "cifar10" if args.data else "synthetic", "workers": summary["workers"],
                      "precision": args.precision if args.device == "cuda" else "cpu",
                      "learning_rate": args.learning_rate, "asked": args.iterations, "iterations": summary["iterations"],
                      "wall_seconds": round(summary["wall_seconds"], 2), "seconds_whole": round(whole, 1),
                      "samples_per_second": round(128 * summary["iterations"] / summary["wall_seconds"]),
                      "test_accuracy": summary["test_accuracy"], "final_threshold": summary["final_threshold"],
                      "limit": limit}))
    return 1 if limit is not None and whole > limit else 0


if __name__ == "__main__":
    sys.exit(main())
