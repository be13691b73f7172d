#!/usr/bin/env python3
"""Training loops in PyTorch as nodes of a run: beside DistributedDataParallel over Gloo, and beside the same loop alone.

    tests/bench/torch_vs_ddp.py [--bin build/release/bin] [--only ddp alone round memory] [--nodes 2 4] [--rounds 15]
                               [--exchange server | allreduce]

    ddp      a step of ResNet-18 (11.7 M parameters) on N processes: ours by DDP's time. Target: at most 0.9
    alone    a step of about 100 ms, one node with a server by the plain loop's time. Target: at most 1.03
    round    begin and finish of a model of 1,000 parameters, on one node: the median of turns' medians. Target: at most 150 µs
    memory   what a process holds at most after a step, beyond the same loop alone, in parameters, for each mode of attach(): of ResNet-18
             (46.8 MB), and of two models of one tensor, whose difference tells copies from what any model takes. The server's
             own pages, which the process reads where they lie, are counted apart. `gradients`: how many buffers; one more
             for each time that the servers let go of one too late for the next. Target: at most 3

In `ddp` and `alone` each process has both loops, and they take turns of a few steps; a figure is the median of the turns'
quotients. One thread computes. Interpreter: one with torch; PACELINE_LIBRARY is set here. One JSON line for each figure.
"""

import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
TARGETS = {"ddp": 0.9, "alone": 1.03, "round_us": 150, "memory": 3.0}


# ---- a process

def resnet18(classes=1000):
    """He et al., 2016, table 1."""
    from torch import nn

    class Block(nn.Module):
        def __init__(self, before, after, stride):
            super().__init__()
            self.body = nn.Sequential(nn.Conv2d(before, after, 3, stride, 1, bias=False), nn.BatchNorm2d(after), nn.ReLU(),
                                      nn.Conv2d(after, after, 3, 1, 1, bias=False), nn.BatchNorm2d(after))
            self.way = nn.Identity() if stride == 1 and before == after else nn.Sequential(
                nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after))

        def forward(self, x):
            return nn.functional.relu(self.body(x) + self.way(x))
    widths = (64, 64, 128, 256, 512)
    blocks = [Block(widths[max(i, 1) - 1 if first else i], widths[i], 2 if first and i > 1 else 1)
              for i in range(1, 5) for first in (True, False)]
    return nn.Sequential(nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1), *blocks,
                         nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, classes))


class Loop:
    """Steps of one model on the same mini-batch."""

    def __init__(self, model, side, batch):
        import torch
        self.model, self.torch = model, torch
        self.optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
        self.x, self.y = torch.randn(batch, 3, side, side), torch.zeros(batch, dtype=torch.long)

    def seconds(self, steps):
        begin = time.perf_counter()
        for _ in range(steps):
            self.optimizer.zero_grad()
            self.torch.nn.functional.cross_entropy(self.model(self.x), self.y).backward()
            self.optimizer.step()
        return (time.perf_counter() - begin) / steps


def node_of_turns(args):
    """Both loops in turns; rank 0 prints the seconds of each."""
    import torch
    import paceline.torch
    import paceline.worker
    torch.set_num_threads(1)
    node = paceline.worker.node_of(None)
    theirs = resnet18()
    if args.mode == "ddp":
        torch.distributed.init_process_group("gloo", init_method=f"file://{args.folder}/store", rank=node, world_size=args.count)
        theirs = torch.nn.parallel.DistributedDataParallel(theirs)
    other, ours = Loop(theirs, args.side, args.batch), Loop(resnet18(), args.side, args.batch)
    wait = torch.distributed.barrier if args.mode == "ddp" else lambda: None
    seconds = []
    with paceline.torch.attach(ours.model, ours.optimizer, args.config, overlap=True):
        for turn in range(args.rounds + 1):
            pair = {}
            for name, loop in (("theirs", other), ("ours", ours))[::1 if turn % 2 else -1]:
                wait()
                pair[name] = loop.seconds(args.steps)
            seconds.append(pair)
    if node == 0:
        print(json.dumps(seconds[1:]))  # the first warms up
    if args.mode == "ddp":
        torch.distributed.destroy_process_group()


def node_of_rounds(args):
    import numpy as np
    import paceline
    seconds = []
    with paceline.Worker(args.config, 0) as worker:
        worker.add_tensor("w", (1000,))
        worker.start(np.zeros(1000, np.float32))
        for _ in range(args.rounds):
            turn = []
            for _ in range(1000):
                begin = time.perf_counter()
                round = worker.begin()
                round.gradient[:] = 0
                worker.finish(samples=1)
                turn.append(time.perf_counter() - begin)
            seconds.append(statistics.median(turn))
    print(json.dumps(seconds))


def node_of_memory(args):
    """Prints the most that this process has in memory behind a step, less what others share with it; of it what it shares
    with them; what they share with it; and its parameters, all in bytes. --way alone: without a run."""
    import torch
    torch.set_num_threads(1)
    import paceline.torch
    made = resnet18() if args.rows == 0 else torch.nn.Sequential(
        torch.nn.Flatten(), torch.nn.Linear(3 * args.side ** 2, args.rows, bias=False))
    loop, seen = Loop(made, args.side, args.batch), []

    def sample():
        for _ in range(10):
            loop.seconds(1)
            smaps = pathlib.Path("/proc/self/smaps").read_text(encoding="utf-8")
            theirs, shared, whole = (resident(smaps, of) for of in ("r--s .*/memfd:paceline.*", "rw-s .*/memfd:paceline.*", ".*"))
            seen.append((whole - theirs, shared, theirs))
    if args.way == "alone":
        sample()
    else:
        with paceline.torch.attach(loop.model, loop.optimizer, args.config, mode=args.way):
            sample()
    print(json.dumps([*map(max, zip(*seen)), 4 * sum(p.numel() for p in made.parameters())]))


def resident(smaps, of):
    """Bytes in memory of the mappings whose first line is so."""
    return sum(1024 * int(kb) for kb in re.findall(rf"(?m)^[0-9a-f]+-[0-9a-f]+ {of}\n(?:[A-Z].*\n)*?Rss: +(\d+)", smaps))


# ---- the whole

def run(args, mode, count, way="server", rows=0):
    """What rank 0 prints. `way`: attach()'s mode; "alone": there is no server."""
    # With mode="worker" the servers take a mean.
    outer = "{kind: sgd, lr: 1}" if way == "worker" else "{kind: momentum, lr: 0.001, momentum: 0.9}"
    with tempfile.TemporaryDirectory(prefix="paceline-") as folder:
        config = pathlib.Path(folder, "run.yaml")
        config.write_text(f"""\
run: {{name: bench, out: {folder}/run}}
cluster: {{nodes: {count}, threads_per_node: 1, endpoints: ["ipc://{folder}/s"], shared_memory: {args.shared_memory}}}
sync: {{policy: bsp}}
exchange: {{kind: {args.exchange if count > 1 else 'server'}}}
train: {{optimizer: {outer}, batch_size: {args.batch}, total_iterations: 100000000}}
""", encoding="utf-8")
        program = [__file__, "--node", "--mode", mode, "--config", config, "--folder", folder, "--count", str(count), "--rounds",
                   str(args.rounds), "--steps", str(args.steps), "--side", str(args.side), "--batch", str(args.batch),
                   "--way", way, "--rows", str(rows)]
        launch = ["-m", "paceline.launch", "--programs", args.bin, config] if way != "alone" else []
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "python"), "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo",
                       "PACELINE_LIBRARY": str(pathlib.Path(args.bin).resolve().parent / "lib/libpaceline.so.0")}
        # All nodes leave before the run's end, so the server says that it has failed: what rank 0 has said counts.
        done = subprocess.run([sys.executable, *map(str, launch + program)], env=environment, capture_output=True, text=True, check=False)
        try:
            return json.loads(done.stdout.strip().splitlines()[-1])
        except (IndexError, ValueError):
            sys.exit(f"{mode}: no figure\n{done.stderr[-3000:]}")


def judged(figure, value, **more):
    print(json.dumps({"benchmark": "torch_vs_ddp", "figure": figure, **more, "value": value, "target": TARGETS[figure],
                      "ok": value <= TARGETS[figure]}), flush=True)


def turns(args, mode, count):
    pairs = run(args, mode, count)
    quotients = sorted(pair["ours"] / pair["theirs"] for pair in pairs)
    judged(mode, statistics.median(quotients), nodes=count, least=quotients[0], most=quotients[-1],
           ours_ms=1e3 * statistics.median(pair["ours"] for pair in pairs),
           theirs_ms=1e3 * statistics.median(pair["theirs"] for pair in pairs))


def memory(args):
    """Of each mode and model what a run takes; and of models of one tensor what each parameter of it does."""
    mb, rows = 1e6, (1000, 4000)  # of 3 * 64 * 64 = 12,288 parameters
    for way in ("server", "worker"):
        held = []
        for model in (0, *rows):
            alone, *_, parameters = run(args, "memory", 1, "alone", model)
            own, gradients, theirs, _ = run(args, "memory", 1, way, model)
            held.append((own - alone, parameters))
            judged("memory", held[-1][0] / parameters, mode=way, model="one tensor" if model else "resnet18",
                   parameters_mb=parameters / mb, gradients=gradients / parameters, servers_pages=theirs / parameters)
        (few, small), (many, large) = held[1:]
        copies = (many - few) / (large - small)
        judged("memory", copies, mode=way, model="each further parameter", any_model_mb=(few - copies * small) / mb)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default=ROOT / "build/release/bin")
    parser.add_argument("--only", nargs="+", choices=("ddp", "alone", "round", "memory"), default=("ddp", "alone", "round", "memory"))
    parser.add_argument("--nodes", nargs="+", type=int, default=(2, 4))
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--steps", type=int, default=5, help="of a turn")
    parser.add_argument("--side", type=int, default=64, help="of an image")
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--exchange", choices=("server", "allreduce"), default="server")
    parser.add_argument("--shared-memory", choices=("auto", "off"), default="auto")
    for name in ("--mode", "--config", "--folder", "--way"):
        parser.add_argument(name, help=argparse.SUPPRESS)
    parser.add_argument("--node", action="store_true", help=argparse.SUPPRESS)
    for name in ("--count", "--rows"):
        parser.add_argument(name, type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.node:
        return {"round": node_of_rounds, "memory": node_of_memory}.get(args.mode, node_of_turns)(args)
    if "ddp" in args.only:
        for count in args.nodes:
            turns(args, "ddp", count)
    if "alone" in args.only:
        turns(args, "alone", 1)
    if "round" in args.only:
        judged("round_us", 1e6 * statistics.median(run(args, "round", 1)))
    if "memory" in args.only:
        memory(args)
    return 0


if __name__ == "__main__":
    sys.exit(main())
