#!/usr/bin/env python3
"""The memory that a server and its workers use at most, beside what docs/ARCHITECTURE.md says they may use.

    cmake --build build/release --target benchmarks
    tests/bench/memory.py [--bin build/release/bin] [--mb 40] [--workers 4] [--steps 60] [--json FILE]

Steps compute nothing (exchange/no_compute_task.h), so that gradients come as fast as they can. A cell is a policy (ssp with
threshold 3, versioned; asp, eager) and an optimizer; `server_mb` is the most that paceline-server had in use (VmHWM).

    bound = parameters x (2 + retained, 2) + optimizer state + gradients per worker x workers + 64 MiB

with the optimizer's state of momentum or Adam (one or two parameters' worth), and threshold + 2 gradients per worker when
versioned. Under eager there are two bounds: the issue's 2 per worker (`bound_2_mb`), and the 8 that a shard may hold by
docs/ARCHITECTURE.md (`bound_mb`), since there no grant waits for what it has applied. The second is what is judged.

The other cells are a node with 1, 2 and 4 threads: `per_thread_mb` is what a thread more takes, in models' sizes `models`.
Everything is sent: pages that a server and a node share would count in the peaks of both.
One JSON line for each cell; exit status 1 when a server used more than its bound. Cells that do not fit into the free memory
are left out, and said so.
"""
import argparse
import json
import os
import sys
import tempfile
from pathlib import Path

from processes import available_bytes, run_all

CONFIG = """\
run: {{name: memory, out: {out}, log_level: warn}}
cluster: {{nodes: {nodes}, threads_per_node: {threads}, endpoints: ["ipc://{folder}/socket"],
  shared_memory: off}}
sync: {sync}
train:
  optimizer: {{kind: {optimizer}, lr: 0.001}}
  batch_size: 1
  total_iterations: {steps}
"""
SYNC = {"ssp": "{policy: ssp, threshold: 3}", "asp": "{policy: asp}"}
HELD = {"ssp": 3 + 2, "asp": 8}  # gradients per worker
STATE = {"sgd": 0, "adam": 2}    # parameters' worth
RETAINED = 2
SLACK = 64 * 1024 * 1024


def run(args, policy, optimizer, nodes, threads):
    """The peaks of the server and of the largest node, in bytes."""
    with tempfile.TemporaryDirectory(prefix="paceline.") as made:
        folder, config = Path(made), Path(made) / "config.yaml"
        config.write_text(CONFIG.format(out=folder / "run", folder=folder, nodes=nodes, threads=threads, sync=SYNC[policy],
                                        optimizer=optimizer, steps=args.steps * nodes * threads))
        floats = int(args.mb * 1e6 / 4)
        peaks = {}
        run_all([[args.bin / "paceline-server", config]] +
                [[args.bin / "bench_path_worker", str(floats), "1", config, "--node", str(n)] for n in range(nodes)],
                folder, peaks)
        return peaks[0], max(peaks[n + 1] for n in range(nodes))


def mb(size):
    return round(size / 1e6, 1)


def server_cell(args, policy, optimizer):
    model = args.mb * 1e6

    def bound(gradients):
        return model * (2 + RETAINED + STATE[optimizer] + gradients * args.workers) + SLACK

    # A node of one thread: its process cache, parameters, gradient buffers, local state and differences.
    needed = bound(HELD[policy]) + args.workers * model * (12 + STATE[optimizer])
    cell = {"benchmark": "memory", "cell": "server", "policy": policy, "optimizer": optimizer, "mb": args.mb,
            "workers": args.workers, "steps": args.steps}
    if needed > available_bytes():
        return cell | {"left_out": f"may need {mb(needed)} MB, available are {mb(available_bytes())}"}
    server, node = run(args, policy, optimizer, args.workers, 1)
    cell |= {"server_mb": mb(server), "bound_mb": mb(bound(HELD[policy])),
             "of_bound": round(server / bound(HELD[policy]), 3), "node_mb": mb(node)}
    if policy == "asp":
        cell |= {"bound_2_mb": mb(bound(2)), "of_bound_2": round(server / bound(2), 3)}
    return cell


def node_cell(args, policy, optimizer, threads, before):
    _, node = run(args, policy, optimizer, 1, threads)
    cell = {"benchmark": "memory", "cell": "node", "policy": policy, "optimizer": optimizer, "mb": args.mb,
            "threads": threads, "node_mb": mb(node)}
    if before:
        per_thread = (cell["node_mb"] - before["node_mb"]) / (threads - before["threads"])
        cell |= {"per_thread_mb": round(per_thread, 1), "models": round(per_thread / args.mb, 2)}
    return cell


def cells(args):
    for policy in SYNC:
        for optimizer in STATE:
            yield server_cell(args, policy, optimizer)
    for policy in SYNC:
        before = None
        for threads in (1, 2, 4):
            before = node_cell(args, policy, "sgd", threads, before)
            yield before


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=Path, default=Path(__file__).resolve().parents[2] / "build/release/bin")
    parser.add_argument("--mb", type=float, default=40)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--steps", type=int, default=60, help="of each worker")
    parser.add_argument("--json", type=Path, help="append the lines to this file, too")
    args = parser.parse_args()
    failed = False
    for cell in cells(args):
        cell["load"] = round(os.getloadavg()[0], 1)
        line = json.dumps(cell)
        print(line, flush=True)
        if args.json:
            with open(args.json, "a", encoding="utf-8") as file:
                file.write(line + "\n")
        failed = failed or cell.get("of_bound", 0) > 1
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
