#!/usr/bin/env python3
"""The memory that a server and its workers use at most, beside what docs/ARCHITECTURE.md says they may use.

    cmake --build build/release --target benchmarks
    tests/bench/memory.py [--bin build/release/bin] [--mb 40] [--workers 4] [--steps 60] [--json FILE]

Steps compute nothing (exchange/no_compute_task.h), so that gradients come as fast as they can. A cell is a policy (ssp with
threshold 3, versioned; asp, eager), an optimizer, a number of shards, whether the model is evaluated every few clocks
(then shards retain versions), and whether memory is shared; `server_mb` is the most that a paceline-server had in use
(VmHWM), of several the largest.

    bound = parameters x (2 + retained, 2 where there are evaluations) + optimizer state
            + gradients per worker x workers + 64 MiB                       parameters and gradients: of the shard's range

with the optimizer's state of Adam (two parameters' worth), and threshold + 2 gradients per worker when versioned, 2 when eager.

The other cells are a node with 1, 2 and 4 threads: `per_thread_mb` is what a thread more takes, in models' sizes `models`.
Everything is sent, but in the cells of `shared`: there parameters and gradients lie in shared memory, and the pages that a
server and a node share count in the peaks of both.
One JSON line for each cell; exit status 1 when a server used more than its bound, or a cell was left out, as one is that
does not fit into the free memory.
"""
import argparse
import os
import sys
import tempfile
from pathlib import Path

from processes import available_bytes, run_all, say

CONFIG = """\
run: {{name: memory, out: {out}, log_level: warn}}
cluster: {{nodes: {nodes}, threads_per_node: {threads}, shards: {shards}, endpoints: [{endpoints}],
  shared_memory: {shared}}}
sync: {sync}
train:
  optimizer: {{kind: {optimizer}, lr: 0.001}}
  batch_size: 1
  total_iterations: {steps}
  eval_every_clocks: {eval_every}
"""
SYNC = {"ssp": "{policy: ssp, threshold: 3}", "asp": "{policy: asp}"}
HELD = {"ssp": 3 + 2, "asp": 2}  # gradients per worker
STATE = {"sgd": 0, "adam": 2}    # parameters' worth
RETAINED = 2                     # with evaluations
EVALUATED_EVERY = 5              # clocks
SLACK = 64 * 1024 * 1024


def run(args, policy, optimizer, nodes, threads, shards=1, evaluated=False, shared=False):
    """The peaks of the largest server and of the largest node, in bytes."""
    with tempfile.TemporaryDirectory(prefix="paceline.") as made:
        folder, config = Path(made), Path(made) / "config.yaml"
        config.write_text(CONFIG.format(out=folder / "run", nodes=nodes, threads=threads, shards=shards, sync=SYNC[policy],
                                        endpoints=", ".join(f'"ipc://{folder}/{k}"' for k in range(shards)),
                                        optimizer=optimizer, steps=args.steps * nodes * threads,
                                        shared="on" if shared else "off",
                                        eval_every=EVALUATED_EVERY if evaluated else "null"))
        floats = int(args.mb * 1e6 / 4)
        peaks = {}
        run_all([[args.bin / "paceline-server", config, "--shard", str(k)] for k in range(shards)] +
                [[args.bin / "bench_path_worker", str(floats), "1", config, "--node", str(n)] for n in range(nodes)],
                folder, peaks)
        return max(peaks[k] for k in range(shards)), max(peaks[shards + n] for n in range(nodes))


def mb(size):
    return round(size / 1e6, 1)


def server_cell(args, policy, optimizer, shards=1, evaluated=False, shared=False):
    model = args.mb * 1e6

    retained = RETAINED if evaluated else 0
    bound = model / shards * (2 + retained + STATE[optimizer] + HELD[policy] * args.workers) + SLACK
    # A node of one thread: its process cache, parameters, gradient buffers, local state and differences.
    needed = shards * bound + args.workers * model * (12 + STATE[optimizer])
    cell = {"benchmark": "memory", "cell": "server", "policy": policy, "optimizer": optimizer, "mb": args.mb,
            "workers": args.workers, "shards": shards, "evaluated": evaluated, "shared": shared, "steps": args.steps}
    if needed > available_bytes():
        return cell | {"left_out": f"may need {mb(needed)} MB, available are {mb(available_bytes())}"}
    server, node = run(args, policy, optimizer, args.workers, 1, shards, evaluated, shared)
    return cell | {"server_mb": mb(server), "bound_mb": mb(bound), "of_bound": round(server / bound, 3), "node_mb": mb(node)}


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
        yield server_cell(args, policy, "sgd", shards=2)
        yield server_cell(args, policy, "sgd", evaluated=True)
        yield server_cell(args, policy, "adam", shared=True)
        yield server_cell(args, policy, "sgd", evaluated=True, shared=True)
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
        say(cell, args.json)
        failed = failed or cell.get("of_bound", 0) > 1 or "left_out" in cell
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
