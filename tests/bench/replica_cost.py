#!/usr/bin/env python3
"""What a second server of each shard costs training (cluster.replicas: 2): the same run with and without, in turns, who goes
first changing from pair to pair; all processes, and an etcd, on this machine.

    scripts/build.sh
    tests/bench/replica_cost.py CONFIG [--bin build/release/bin] [--pairs 5] [--tcp] [key.path=value …]

CONFIG needs `data`. The daemons meet on Unix sockets, with --tcp on the loopback address; gradients go from the first server to
the second over the same. One JSON line: seconds a version with and without, medians over the pairs, and the median of the pairs'
ratios. Where all share a few cores a second server takes them from the others, so this is more than it costs two machines.
"""
import json
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "process/daemons"))
import etcd  # noqa: E402 (after the path is known)
from paired_runs import parser, run_pairs  # noqa: E402
from processes import fail, run_all  # noqa: E402


class Etcd:
    def __init__(self, folder):
        client, peer = (f"http://127.0.0.1:{port}" for port in etcd.free_ports(2))
        self.endpoint = client
        self.process = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", *etcd.command(str(folder), client, peer)],
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(100):
            try:
                urllib.request.urlopen(f"{client}/health", timeout=1).close()
                return
            except (urllib.error.URLError, OSError):
                if self.process.poll() is not None:
                    break
                time.sleep(0.1)
        self.end()
        fail("etcd does not answer")

    def end(self):
        self.process.kill()
        self.process.wait()


def get(args, key):
    command = [f"{args.bin}/paceline", "check-config", args.config, *args.overrides, "--get", key]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        fail(done.stderr.strip())
    return done.stdout.strip()


def summary_of(args, out, overrides):
    """One run, its daemons started side by side; `overrides` names a replica count."""
    replicas = int(overrides[0].split("=")[1])
    shards, nodes = int(get(args, "cluster.shards")), int(get(args, "cluster.nodes"))
    shutil.rmtree(out, ignore_errors=True)
    shutil.rmtree(f"{out}.replica1", ignore_errors=True)
    out.mkdir()
    sockets = [f"tcp://127.0.0.1:{port}" if args.tcp else f"ipc://{out}/{port}"
               for port in etcd.free_ports(shards * replicas)]
    printed = [args.config, *args.overrides, *overrides, f"run.out={out}/run",
            "cluster.endpoints=[" + ",".join(f'"{each}"' for each in sockets) + "]"]
    servers = [[f"{args.bin}/paceline-server", *printed, "--shard", str(k), "--replica", str(r)]
               for k in range(shards) for r in range(replicas)]
    workers = [[f"{args.bin}/paceline-worker", *printed, "--node", str(i)] for i in range(nodes)]
    run_all(servers + workers, out)
    return json.loads((out / "run/summary.json").read_text(encoding="utf-8"))


def main():
    options = parser(__doc__)
    options.add_argument("--tcp", action="store_true")
    args = options.parse_intermixed_args()  # as its usage says: overrides after options
    if shutil.which("etcd") is None:
        fail("there is no etcd here (scripts/install_deps.sh --etcd)")
    folder = Path(subprocess.run(["mktemp", "-d"], capture_output=True, text=True, check=True).stdout.strip())
    decides = Etcd(folder)
    try:
        result, _ = run_pairs(args, ["cluster.replicas=2", f'cluster.etcd=["{decides.endpoint}"]'], ["cluster.replicas=1"],
                              summary_of)
    finally:
        decides.end()
        shutil.rmtree(folder)
    print(json.dumps(result))


if __name__ == "__main__":
    sys.exit(main())
