#!/usr/bin/env python3
"""Whether servers with `server.device: cuda` train to the bits that they train to without: whole runs of the daemons.

    tests/bench/server_device_bits.py [--bin build/release/bin] [--iterations 24] [--model cifar_cnn_small]

Runs in pairs: paceline-server and one paceline-worker of two threads on this machine, BSP, so that each decision is a mean of
two gradients, on generated data; once with server.device cpu, once with cuda. Gradients are computed on the CPU, whose bits
are the same in each run, so that all that may differ is the server. Each optimizer, with gradients that the worker lends in
memory which both see (shared), and Adam with gradients that are sent over ipc. One JSON line a pair: whether the two files of
the final model (model.bin) are the same, byte for byte.
--device cpu tries the script itself on a machine without a GPU. Exit status: 1 when two files differ, 3 when a run failed.
"""
import argparse
import json
import sys
import tempfile
from pathlib import Path

from gpu_threads import make_data
from processes import fail, run_all

CONFIG = """\
run: {{name: server_device_bits, out: {out}}}
cluster: {{nodes: 1, threads_per_node: 2, endpoints: ["ipc://{out}/socket"], shared_memory: {shared_memory}}}
sync: {{policy: bsp}}
train:
  model: {model}
  batch_size: 16
  total_iterations: {iterations}
  eval_samples: 128
  optimizer: {{kind: {optimizer}, lr: 0.001}}
data: {{kind: synthetic, path: {data}}}
server: {{device: {device}}}
"""
SHARED_MEMORY = {"shared": "on", "ipc": "off"}
PAIRS = (("sgd", "shared"), ("momentum", "shared"), ("adam", "shared"), ("adam", "ipc"))


def model_of(args, data, optimizer, transport, device):
    """The file of the final model."""
    with tempfile.TemporaryDirectory(prefix="paceline.") as made:
        folder = Path(made)
        config = folder / "config.yaml"
        config.write_text(CONFIG.format(out=folder, shared_memory=SHARED_MEMORY[transport], model=args.model, data=data,
                                        iterations=args.iterations, optimizer=optimizer, device=device))
        run_all([[args.bin / "paceline-server", config], [args.bin / "paceline-worker", config, "--node", "0"]], folder)
        summary = json.loads((folder / "summary.json").read_text())
        if summary["status"] != "ok" or summary["iterations"] != args.iterations:
            fail(f"server.device {device}: status {summary['status']}, {summary['iterations']} of {args.iterations} "
                 "iterations")
        return (folder / "model.bin").read_bytes()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=Path, default=Path(__file__).resolve().parents[2] / "build/release/bin")
    parser.add_argument("--iterations", type=int, default=24)
    parser.add_argument("--model", default="cifar_cnn_small")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    args = parser.parse_args()
    differ = False
    with tempfile.TemporaryDirectory(prefix="paceline.") as made:
        data = Path(made) / "data"
        make_data(args.bin, data)
        for optimizer, transport in PAIRS:
            expected, got = (model_of(args, data, optimizer, transport, device) for device in ("cpu", args.device))
            print(json.dumps({"benchmark": "server_device_bits", "model": args.model, "optimizer": optimizer,
                              "transport": transport, "iterations": args.iterations, "bytes": len(got),
                              "same": got == expected}), flush=True)
            differ = differ or got != expected
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
