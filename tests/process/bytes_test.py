#!/usr/bin/env python3
"""bytes_pushed and bytes_pulled of summary.json against what the kernel counted on the wire.

    bytes_test.py BIN-DIR

Two servers in one network namespace, a node with two threads in another, a virtual cable between them: the
interface then carries the node's traffic and nothing else. Both directions must agree within 2 %, over more
than 100 MB each. The interface counts TCP, IP and Ethernet headers and acknowledgements too; with packets of
up to 64 KiB they are a few per mille. (What the authority fetches of the final model from the
other server is counted, but does not cross the cable: less than 1 % here.) Exit status 77 (skipped) where namespaces are not permitted.
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile

TOLERANCE = 0.02
BYTES_MIN = 100e6
SKIPPED = 77
TIMEOUT_S = 100

CONFIG = """
run: {{name: bytes, out: {out}}}
cluster:
  nodes: 1
  threads_per_node: 2
  shards: 2
  endpoints: ["tcp://10.77.0.1:5555", "tcp://10.77.0.1:5556"]
  shared_memory: off  # both are on this machine, cable or not
security: {{allow_insecure: true}}  # bytes as they are counted
sync: {{policy: bsp}}
train:
  model: layers
  layers: [{{kind: flatten}}, {{kind: dense, out: 160}}, {{kind: relu}}, {{kind: dense, out: 10}}]
  optimizer: {{kind: sgd, lr: 0.001}}
  batch_size: 1
  total_iterations: 140
data: {{path: {data}}}
"""


def inside():
    """In fresh namespaces of its own, which end with this process: mounts and cables need no cleaning up."""
    if sys.argv[-1] == "inside":
        return
    unshare = ["unshare", "--map-root-user", "--net", "--mount"]
    if not shutil.which("ip") or subprocess.run([*unshare, "true"], capture_output=True).returncode != 0:
        print("skipped: no ip command, or no network namespaces for us here")
        sys.exit(SKIPPED)
    os.execvp("unshare", [*unshare, sys.executable, *sys.argv, "inside"])


def ip(*words):
    return subprocess.run(["ip", *words], check=True, capture_output=True, text=True).stdout


def lay_cable():
    try:
        subprocess.run(["mount", "-t", "tmpfs", "none", "/run"], check=True, capture_output=True)
        for name in ("server", "node"):
            ip("netns", "add", name)
            ip("-n", name, "link", "set", "lo", "up")
        ip("link", "add", "cable", "netns", "server", "mtu", "65535", "type", "veth", "peer", "name", "cable",
           "netns", "node")
        for name, address in (("server", "10.77.0.1/24"), ("node", "10.77.0.2/24")):
            ip("-n", name, "addr", "add", address, "dev", "cable")
            ip("-n", name, "link", "set", "cable", "mtu", "65535", "up")
    except subprocess.CalledProcessError as error:
        print("skipped:", " ".join(error.cmd), (error.stderr or "").strip())
        sys.exit(SKIPPED)


def counters():
    """Bytes that came from the node, and that went to it."""
    stats = json.loads(ip("-n", "server", "-s", "-j", "link", "show", "cable"))[0]["stats64"]
    return stats["rx"]["bytes"], stats["tx"]["bytes"]


def main():
    programs = os.path.abspath(sys.argv[1])
    lay_cable()
    folder = tempfile.mkdtemp(prefix="paceline-bytes-")
    running = []

    def start(namespace, *command):
        running.append(subprocess.Popen(["nsenter", "--net=/run/netns/" + namespace, *command]))

    try:
        data = os.path.join(folder, "data")
        out = os.path.join(folder, "run")
        config = os.path.join(folder, "config.yaml")
        subprocess.run([programs + "/paceline", "data", "synthesize", "--out", data, "--train", "200", "--test",
                        "10"], check=True)
        with open(config, "w", encoding="utf-8") as file:
            file.write(CONFIG.format(out=out, data=data))
        before = counters()
        start("server", programs + "/paceline-server", config)
        start("server", programs + "/paceline-server", config, "--shard", "1")
        start("node", programs + "/paceline-worker", config, "--node", "0")
        for process in running:
            if process.wait(TIMEOUT_S) != 0:
                sys.exit(f"{process.args} ended with {process.returncode}")
        after = counters()
        with open(os.path.join(out, "summary.json"), encoding="utf-8") as file:
            summary = json.load(file)
    finally:
        for process in running:
            if process.poll() is None:
                process.kill()
        shutil.rmtree(folder, ignore_errors=True)

    agree = True
    for what, place in (("bytes_pushed", 0), ("bytes_pulled", 1)):
        on_wire = after[place] - before[place]
        ratio = summary[what] / on_wire
        print(f"{what}: {summary[what]:,} counted, {on_wire:,} on the interface, ratio {ratio:.4f}")
        agree = agree and abs(ratio - 1.0) <= TOLERANCE and summary[what] >= BYTES_MIN
    sys.exit(0 if agree else f"expected a ratio within {TOLERANCE:.0%} of 1, over {BYTES_MIN / 1e6:.0f} MB")


if __name__ == "__main__":
    inside()
    main()
