"""What the cores of a machine do while something runs, by `perf record` of all of it: in milliseconds of one core for each
step, a row for each kind of work. For profile_exchange.py and profile_through_server.py.

Samples are of time (cpu-clock), 1,999 a second on every core, so idle time counts, too: the rows add up to cores x the time of
a step (less what an idle core was not sampled), and starting and ending are spread over the steps. Wants perf, root (or
perf_event_paranoid < 1) and an otherwise idle machine: what else runs is in it.
"""
import os
import re
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from processes import fail

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
    ("sealing (libsodium)", r"libsodium"),
    ("computing (oneDNN, its generated code)", r"libdnnl|libgomp|\[JIT\]|//anon|^\[unknown\]|perf-\d+\.map"),
    ("headers (Protocol Buffers, codec)", r"libprotobuf|google::protobuf|codec|::encode\b|decode"),
    ("own updates made again, by the workers", r"^bench_path_worker .*(sgd|subtract|copy_past_cache)"),
    ("apply", r"sgd|apply_stateless|OptimizerState|write_step|copy_past_cache|momentum|adam|begin_sum|add_weighted|scale"),
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


def profile(run, steps, lists_rest=False):
    """Of run(), which takes that many steps and returns the seconds of one. lists_rest: the functions of the rows that say
    `other`, to standard error."""
    rest = {}
    with tempfile.TemporaryDirectory(prefix="paceline.") as folder:
        data = Path(folder) / "perf.data"
        perf = subprocess.Popen(["perf", "record", "-q", "-a", "-e", "cpu-clock", "-F", str(RATE), "-o", data],
                                stderr=subprocess.PIPE)
        before = switches()
        try:
            seconds = run()
            switched = switches() - before
        finally:
            perf.send_signal(signal.SIGINT)
            complaint = perf.communicate()[1].decode().strip()
        if not data.exists():
            fail(f"perf record: {complaint}")
        rows = {row: 0.0 for row, _ in IN_PROGRAMS + IN_KERNEL}
        for count, dso, symbol in samples_of(data):
            row = category(dso, symbol)
            ms = 1e3 * count / RATE / steps
            rows[row] += ms
            if "other" in row:
                rest[f"{dso} {symbol}"] = round(ms, 3)
    if lists_rest:
        for name in sorted(rest, key=rest.get, reverse=True)[:30]:
            print(f"{rest[name]:9.3f}  {name}", file=sys.stderr)
    return {"ms": round(1e3 * seconds, 3), "cores": os.cpu_count(), "switches": round(switched / steps, 1),
            "core_ms": {row: round(ms, 3) for row, ms in rows.items()}}
