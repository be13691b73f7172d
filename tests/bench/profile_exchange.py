#!/usr/bin/env python3
"""Where the processor time of a step of the parameter path goes: exchange.py's raw loop and Paceline's, each under `perf record`
of the whole machine, and what they did, in milliseconds of one core for each step, and how often a core changed threads.

    cmake --build build/release --target benchmarks
    tests/bench/profile_exchange.py [--bin build/release/bin] [--mb 4] [--workers 1] [--policy asp] [--transport tcp | ipc | shared]
                                    [--steps N] [--raw-threads 2] [--raw-messages] [--rest]

Samples are of time (cpu-clock), 1,999 a second on every core, so idle time counts, too: the rows of a column add up to cores x
the time of a step, and starting and ending are spread over the steps (so --steps wants to be large). Wants perf, root (or
perf_event_paranoid < 1) and an otherwise idle machine: what else runs is in it. --rest lists the functions of the rows that
say `other`. With --raw-messages the raw side is the client of small_messages.py, a message of 100 bytes there and one back,
whatever --mb says of ours. One JSON line for each of the two.
"""
import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from exchange import BYTES_PER_RUN, ONE_SERVER, path, raw
from processes import fail
from small_messages import raw as message_there_and_back

RATE = 1999  # samples a second and core
KERNEL = re.compile(r"\[k\]|\[kernel|\[guest\.kernel|\.ko\b")
# What a sample belongs to: the first that fits its function (in the kernel, or of a library or program).
IN_KERNEL = [
    ("idle", r"idle|halt|mwait"),
    ("kernel: copies into and out of sockets", r"copy_user|copyin|copyout|rep_movs|memcpy|_copy_(to|from)"),
    ("kernel: waking and switching threads",
     r"futex|sched|ttwu|try_to_wake|wake_up|switch|epoll|eventfd|poll|enqueue|dequeue|pick_next|select_task|update_curr|"
     r"update_load|rq|reweight|set_next|put_prev|hrtimer|send_call_function|ipi|prepare_to|finish_task|entity"),
    ("kernel: pages", r"clear_page|fault|mmap|munmap|charge|folio|page|pte|lru|zap|shmem|vma"),
    ("kernel: tcp", r"tcp|skb|ip_|inet|sock|net|loopback|napi|dst_|nf_|sk_|qdisc|xmit|softirq|dev_|bbr|csum|ack|timestamp|rtt"),
    ("kernel: entering and leaving", r"syscall|entry|exit|ret_from|fdget|fget|fput|vfs|ksys|x64|security|apparmor"),
    ("kernel: other", r""),
]
IN_PROGRAMS = [
    ("ZeroMQ", r"libzmq"),
    ("headers (Protocol Buffers, codec)", r"libprotobuf|google::protobuf|codec|::encode\b|decode"),
    ("own updates made again, by the workers", r"^bench_path_worker .*(sgd|subtract|copy_past_cache)"),
    ("apply", r"sgd|apply_stateless|OptimizerState|write_step|copy_past_cache|momentum|adam\b|begin_sum|add_weighted|scale"),
    ("looking for NaN", r"finite"),
    ("copies in memory", r"memmove|memcpy|copy"),
    ("the C library: locks, allocation, calls", r"libc\.so|libc-|ld-linux|libstdc|vdso"),
    ("other", r""),
]


def category(dso, symbol):
    kernel = KERNEL.search(dso) or KERNEL.search(symbol)
    name = symbol if kernel else f"{dso} {symbol}"
    return next(row for row, pattern in (IN_KERNEL if kernel else IN_PROGRAMS) if re.search(pattern, name, re.IGNORECASE))


def samples_of(data):
    """(samples, file, function) of each function."""
    said = subprocess.run(["perf", "report", "-i", data, "--stdio", "-n", "-g", "none", "--sort", "dso,sym", "--percent-limit", "0",
                           "-t", "\t"], capture_output=True, text=True, check=True)
    for line in said.stdout.splitlines():
        fields = [field.strip() for field in line.split("\t")]
        if line.startswith("#") or len(fields) < 4:
            continue
        yield int(fields[1]), fields[2], fields[3]


def switches():
    """How often the machine's cores have gone from one thread to another."""
    return next(int(line.split()[1]) for line in Path("/proc/stat").read_text().splitlines() if line.startswith("ctxt "))


def profile(args, loop, floats, folder):
    data, rest = folder / "perf.data", {}
    perf = subprocess.Popen(["perf", "record", "-q", "-a", "-e", "cpu-clock", "-F", str(RATE), "-o", data], stderr=subprocess.PIPE)
    before = switches()
    try:
        seconds, *_ = loop(args, floats, args.steps, folder)
        switched = switches() - before
    finally:
        perf.send_signal(signal.SIGINT)
        complaint = perf.communicate()[1].decode().strip()
    if not data.exists():
        fail(f"perf record: {complaint}")
    rows = {row: 0.0 for row, _ in IN_PROGRAMS + IN_KERNEL}
    for count, dso, symbol in samples_of(data):
        row = category(dso, symbol)
        ms = 1e3 * count / RATE / args.steps
        rows[row] += ms
        if "other" in row:
            rest[f"{dso} {symbol}"] = round(ms, 3)
    if args.rest:
        for name in sorted(rest, key=rest.get, reverse=True)[:30]:
            print(f"{rest[name]:9.3f}  {name}", file=sys.stderr)
    return {"ms": round(1e3 * seconds, 3), "cores": os.cpu_count(), "switches": round(switched / args.steps, 1),
            "core_ms": {row: round(ms, 3) for row, ms in rows.items()}}


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
            print(json.dumps(line | profile(args, loop, int(args.mb * 1e6 / 4), Path(made))), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
