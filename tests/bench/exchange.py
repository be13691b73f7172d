#!/usr/bin/env python3
"""The parameter path beside its limit: one step of push + SGD + pull through paceline-server, and a raw ZeroMQ loop that
sends the whole gradient up and the whole model down in the same frames (exchange/raw_loop.cc).

    cmake --build build/release --target benchmarks
    tests/bench/exchange.py [--bin build/release/bin] [--pairs 15] [--mb 4 40 256 1000] [--workers 1] [--shards 1]
                            [--policy asp] [--transport tcp | ipc | shared] [--server-memory off | auto] [--curve]
                            [--apply-threads 1] [--raw-threads 2] [--pull-order auto | before_push | after_push] [--json FILE]

With --transport shared the payloads lie in memory that both sides see, and ZeroMQ (over ipc) carries the headers; the raw loop
is then exchange/raw_shared_loop.cc, which does the same. Of each side there is one server for each shard, with the same
range, and one ZeroMQ thread a process; a server of either applies with one thread unless --apply-threads gives ours more,
and a worker of either has two, one that computes and one with the sockets (--raw-threads 1 has the raw one do without).

With --server-memory auto our servers keep their parameters in memory that they could share (cluster.shared_memory: auto),
which has no huge pages where the system gives files in memory none (`shmem_enabled`), and our nodes share none (off), as
nodes of other machines: over tcp or ipc, everything is sent. What that costs such nodes is measured beside servers on `off`,
which then take turns with the other two: `private_ms` is a step of theirs, `of_private` the median over the pairs of their
seconds by those of the servers on `auto`: below 1, shareable memory costs.

With --curve our daemons have keys, and the raw loop, as ever, has none: what encryption costs is this ratio beside that
without. In shared memory there is next to nothing to encrypt.

The steps compute nothing (exchange/no_compute_task.h): what is left is the exchange, read from the beginning of one
step to that of the next. Everything a real step does to parameters is in it: the check for NaN, the local apply, the
copy into the thread cache. `asp` has eager apply and overlaps what is worth it (sync.pull_order); `bsp` cannot overlap.

The two take turns, and who goes first changes from pair to pair, so that a machine whose speed drifts treats them alike.

A step of the server need not move what one of the raw loop does: while an older state of the parameters is leaving, a
pull that is merely due is answered without them. So what moved is counted, not assumed: `up` and `down` are the bytes
of a step, headers included, as shares of the model, by bytes_pushed, bytes_pulled and bytes_shared of summary.json
(warm-up included). The raw loop's are 1 and 1. GB/s is of these bytes, and
    ratio           = (raw seconds x (up + down) / 2) / Paceline's seconds: seconds a byte by seconds a byte
    ratio_of_steps  = raw seconds / Paceline's seconds: the same where up and down are 1
both medians over the pairs; 1 would be the limit. `ratio_of_steps` counts a step that brought nothing as one that did.
`raw_cpu_ms` and `paceline_cpu_ms` are the processor time of a step, of all processes; what starting up and ending take is
subtracted, by a run of SHORT steps. --bin takes the programs of another state of the code.

One JSON line for each size; exit status 1 when a ratio is below --limit, or a size that has a limit was left out, as is one
that does not fit into the free memory.
"""
import argparse
import functools
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from processes import available_bytes, fail, run_all, say

CONFIG = """\
run: {{name: exchange, out: {out}, log_level: info}}
cluster: {{nodes: {workers}, threads_per_node: 1, shards: {shards}, endpoints: [{endpoints}], frame_bytes: {frame},
  shared_memory: {shared_memory}, apply_threads: {apply_threads}}}
security: {{keys: {keys}}}
sync: {{policy: {policy}, pull_order: {pull_order}}}
train:
  optimizer: {{kind: sgd, lr: 0.001}}
  batch_size: 1
  total_iterations: {steps}
"""
WARM_UP_STEPS = 10  # memory is recycled after them: fresh pages cost more than the copies
SHORT = 2  # steps, besides those to warm up, of the run that shows what starting up and ending cost
# What path() needs besides, for the benchmarks that have no options for it.
ONE_SERVER = {"shards": 1, "frame": 512 * 1024, "apply_threads": 1, "curve": False, "pull_order": "auto"}
BYTES_PER_RUN = 8e9  # moved up by all workers together in one run; fewer steps of a large model


def free_ports(count):
    with_ports = [socket.socket() for _ in range(count)]
    for one in with_ports:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in with_ports]
    for one in with_ports:
        one.close()
    return ports


def endpoints(args, count, folder):
    if args.transport != "tcp":
        return [f"ipc://{folder}/{k}" for k in range(count)]
    return [f"tcp://127.0.0.1:{port}" for port in free_ports(count)]


def seconds_per_step(folder, first, count):
    """The mean over the workers, whose processes are [first, first + count) of those started in the folder."""
    output = [json.loads((folder / f"stdout{n}").read_text())["seconds_per_step"] for n in range(first, first + count)]
    return statistics.fmean(output)


def bytes_of_a_step(summary, model):
    """(up, down) of one worker's step, as shares of the model. Every gradient that was applied came up whole. Bytes in
    shared memory are counted together: what is not a gradient's is the parameters'. Of those, what came after the last
    step does not count: the final model, for its evaluation, and under BSP what the last push of each worker asked for,
    which is what lies above one model a step."""
    steps = summary["iterations"] * model
    moved = summary["bytes_pushed"] + summary["bytes_pulled"] + summary["bytes_shared"] - model
    up = summary["bytes_pushed"] / steps if summary["bytes_shared"] == 0 else 1.0
    return up, min(moved / steps - up, 1.0)


def raw(args, floats, steps, folder):
    """Seconds of a step, and the processor seconds of all processes for all they did."""
    shared = args.transport == "shared"
    program = args.bin / ("bench_raw_shared_loop" if shared else "bench_raw_loop")
    where = endpoints(args, args.shards, folder)
    own = [folder / f"shard{k}" for k in range(args.shards)]  # of a server and all workers, where they share memory
    servers, workers = [], []
    own_floats = [len(range(k, floats, args.shards)) for k in range(args.shards)]  # common/params/partition.h
    for k, endpoint in enumerate(where):
        own[k].mkdir()
        servers.append([program, "server", endpoint, str(own_floats[k]), str(args.frame), str(args.workers),
                        *([own[k]] if shared else [])])
    for n in range(args.workers):
        workers.append([program, "worker", ",".join(where), str(floats), str(args.frame), str(steps), str(WARM_UP_STEPS),
                        str(args.raw_threads), *([",".join(map(str, own)), str(n)] if shared else [])])
    cpu = run_all(servers + workers, folder)
    return seconds_per_step(folder, args.shards, args.workers), cpu


def check_that_memory_was_shareable(folder, shards, summary):
    """`auto` is also content with a machine that has no such memory; the server then warns."""
    for k in range(shards):
        warned = [line for line in (folder / f"stderr{k}").read_text().splitlines() if "no memory is shared" in line]
        if warned:
            fail(f"exchange: {warned[0]}")
    if summary["bytes_shared"] != 0:
        fail(f"exchange: {summary['bytes_shared']} bytes were shared with nodes that share no memory")


def path(args, floats, steps, folder, server_memory="off"):
    """The same of Paceline, and the bytes that a step moved up and down. `server_memory`: cluster.shared_memory of the
    servers where the nodes' is off."""
    config = folder / "config.yaml"
    total = (steps + WARM_UP_STEPS) * args.workers
    if args.curve:
        subprocess.run([args.bin / "paceline", "keygen", "--out", folder / "keys"], check=True, capture_output=True)
    config.write_text(CONFIG.format(out=folder / "run", workers=args.workers, shards=args.shards, frame=args.frame,
                                    endpoints=", ".join(f'"{e}"' for e in endpoints(args, args.shards, folder)),
                                    keys=folder / "keys" if args.curve else "null", policy=args.policy,
                                    pull_order=args.pull_order, steps=total,
                                    apply_threads=args.apply_threads,
                                    shared_memory="on" if args.transport == "shared" else "off"))
    # One daemon's own affair, so the configuration's fingerprint, which all must have in common, leaves it out.
    own = [] if server_memory == "off" else [f"cluster.shared_memory={server_memory}"]
    servers = [[args.bin / "paceline-server", config, "--shard", str(k), *own] for k in range(args.shards)]
    nodes = [[args.bin / "bench_path_worker", str(floats), str(WARM_UP_STEPS), config, "--node", str(n)]
             for n in range(args.workers)]
    cpu = run_all(servers + nodes, folder)
    summary = json.loads((folder / "run/summary.json").read_text())
    if summary["status"] != "ok" or summary["iterations"] != total:
        fail(f"exchange: status {summary['status']}, {summary['iterations']} of {total} iterations")
    if own:
        check_that_memory_was_shareable(folder, args.shards, summary)
    seconds = seconds_per_step(folder, args.shards, args.workers)
    return seconds, cpu, *bytes_of_a_step(summary, 4 * floats)


def needed_bytes(args, mb):
    """A server: by docs/ARCHITECTURE.md twice the parameters, and the gradients held of each worker, all of them over
    the shards; what ZeroMQ has of a reply under way. A node: cache, parameters, three gradient buffers, difference."""
    gradients_held = 2
    return int(mb * 1e6 * (3 + args.workers * (gradients_held + 6)))


def run_loop(args, name, floats, steps):
    in_memory = "/dev/shm" if args.transport == "shared" else None
    with tempfile.TemporaryDirectory(prefix="paceline.", dir=in_memory) as folder:
        loops = {"raw": raw, "paceline": functools.partial(path, server_memory=args.server_memory), "private": path}
        return loops[name](args, floats, steps, Path(folder))


def start_up_cpu(args, name, floats):
    """Processor seconds of a run that has next to no steps: all that is not a step."""
    return statistics.median(run_loop(args, name, floats, SHORT)[1] for _ in range(min(3, args.pairs)))


def compare(args, mb):
    floats = int(mb * 1e6 / 4)
    steps = max(10, min(2000, int(BYTES_PER_RUN / (mb * 1e6 * args.workers))))
    idle, pairs = {name: start_up_cpu(args, name, floats) for name in ("raw", "paceline")}, []
    names = ["raw", "paceline"] + (["private"] if args.server_memory != "off" else [])
    for n in range(args.pairs):
        output = {name: run_loop(args, name, floats, steps) for name in names[:: 1 if n % 2 == 0 else -1]}
        raw_seconds, raw_cpu = output["raw"]
        seconds, cpu, up, down = output["paceline"]
        pairs.append({"raw": raw_seconds, "paceline": seconds, "up": up, "down": down, "of_steps": raw_seconds / seconds,
                      "of_bytes": raw_seconds * (up + down) / 2 / seconds,
                      "raw_cpu": (raw_cpu - idle["raw"]) / (steps - SHORT),
                      "cpu": (cpu - idle["paceline"]) / (steps - SHORT)})
        if "private" in output:
            private = output["private"][0]
            pairs[-1] |= {"private": private, "of_private": private / seconds}

    def median(key):
        return statistics.median(one[key] for one in pairs)

    raw_ms, paceline_ms = 1e3 * median("raw"), 1e3 * median("paceline")
    ratios = [one["of_bytes"] for one in pairs]
    beside = {}
    if "private" in names:
        of_private = [one["of_private"] for one in pairs]
        beside = {"server_memory": args.server_memory, "shmem_enabled": shmem_enabled(),
                  "private_ms": round(1e3 * median("private"), 3), "of_private": round(median("of_private"), 3),
                  "of_private_range": [round(min(of_private), 3), round(max(of_private), 3)]}
    return {"benchmark": "exchange", "mb": mb, "workers": args.workers, "shards": args.shards, "policy": args.policy,
            "transport": args.transport, "curve": args.curve, "frame_bytes": args.frame,
            "apply_threads": args.apply_threads,
            "raw_threads": args.raw_threads, "steps": steps, "pairs": args.pairs,
            "raw_ms": round(raw_ms, 3), "paceline_ms": round(paceline_ms, 3), "up": round(median("up"), 3),
            "down": round(median("down"), 3), "ratio": round(median("of_bytes"), 3),
            "ratio_range": [round(min(ratios), 3), round(max(ratios), 3)],
            "ratio_of_steps": round(median("of_steps"), 3),
            "raw_cpu_ms": round(1e3 * median("raw_cpu"), 3), "paceline_cpu_ms": round(1e3 * median("cpu"), 3),
            # Up and down, of all workers together.
            "raw_gb_per_s": round(2 * mb * args.workers / raw_ms, 2),
            "paceline_gb_per_s": round((median("up") + median("down")) * mb * args.workers / paceline_ms, 2),
            **beside, "load": round(os.getloadavg()[0], 1)}


def shmem_enabled():
    """Whether the kernel gives files in memory huge pages; "" where it cannot."""
    file = Path("/sys/kernel/mm/transparent_hugepage/shmem_enabled")
    chosen = [word for word in file.read_text().split() if word.startswith("[")] if file.exists() else []
    return "".join(chosen).strip("[]")


def congestion_control():
    return Path("/proc/sys/net/ipv4/tcp_congestion_control").read_text().strip()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=Path, default=Path(__file__).resolve().parents[2] / "build/release/bin")
    parser.add_argument("--pairs", type=int, default=15)
    parser.add_argument("--mb", type=float, nargs="+", default=[4, 40, 256, 1000])
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--shards", type=int, default=1)
    parser.add_argument("--policy", choices=["asp", "bsp"], default="asp")
    parser.add_argument("--pull-order", choices=["auto", "before_push", "after_push"], default="auto", help="of ours, under asp")
    parser.add_argument("--transport", choices=["tcp", "ipc", "shared"], default="tcp")
    parser.add_argument("--server-memory", choices=["off", "auto"], default="off",
                        help="cluster.shared_memory of our servers, where that of our nodes is off")
    parser.add_argument("--curve", action="store_true", help="our daemons encrypt what they send")
    parser.add_argument("--frame", type=int, default=512 * 1024, help="bytes of a payload frame")
    parser.add_argument("--apply-threads", type=int, default=1, help="of our servers; the raw ones have one each")
    parser.add_argument("--raw-threads", type=int, choices=[1, 2], default=2, help="of a raw worker; ours have two")
    parser.add_argument("--limit", type=float, help="the least ratio that is not a failure; default: any")
    parser.add_argument("--json", type=Path, help="append the lines to this file, too")
    args = parser.parse_args()
    if args.server_memory != "off" and args.transport == "shared":
        parser.error("--server-memory auto is for nodes that are sent everything: --transport tcp or ipc")
    failed = False
    for mb in args.mb:
        if needed_bytes(args, mb) > available_bytes():
            result = {"benchmark": "exchange", "mb": mb, "workers": args.workers, "shards": args.shards,
                      "policy": args.policy, "left_out": f"may need {needed_bytes(args, mb) / 1e9:.1f} GB, available are "
                                                         f"{available_bytes() / 1e9:.1f}"}
        else:
            result = compare(args, mb)
        if args.limit is not None:
            result["limit"] = args.limit
        result["tcp_congestion_control"] = congestion_control()
        say(result, args.json)
        failed = failed or args.limit is not None and result.get("ratio", 0.0) < args.limit
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
