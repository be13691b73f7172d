#!/usr/bin/env python3
"""One training step on a GPU beside eager PyTorch's: same network, fixed mini-batch on the device, SGD.

    tests/bench/gpu_step_vs_pytorch.py [--bin build/release/bin] [--rounds 15] [--steps 20] [--model M] [--batch N]
                                       [--precision fp32|tf32|bf16|fp16] [--layout L] [--profile FILE] [--server ROUNDS]
                                       [--demanded]

PyTorch: eager, channels_last (--layout), cudnn.benchmark on and off, zero_grad(set_to_none=True), mean cross-entropy,
backward, torch.optim.SGD as it comes. tf32: allowed for products and for cuDNN; fp32: for neither; bf16 and fp16: autocast
around the forward pass, for information but for resnet50's in bf16; fp16 with torch.amp.GradScaler. Data lie on the device;
the mini-batch stays the same on both sides. resnet50 takes images of 224 x 224 and 1,000 classes, goes through no server,
and has ours sent, each mini-batch beside the step before.

The programs stay, each with its own context, and take turns: a block of --steps steps, at the end of which the device is
waited for, while the others wait. Who begins changes from round to round. A `ratio` is the median over the rounds of our
block / the fastest PyTorch variant's (that which has the least median), after --warm-up steps of each. --profile writes
PyTorch's kernels by their time on the device, for each cell. --demanded leaves out all that has
no limit, and what is measured beside.

Beside ours, in the same turns, ours with `data.on_device: off`: mini-batches in page-locked memory, each sent beside the
step before (`predicted`) and, as if nothing were known of it, in front of its own (`sent`). `hidden` is how much of what
sending adds is hidden: (sent - predicted) / (sent - ours), by the medians.

--server: the same step with the parameter server in the loop, too: one paceline-worker of one thread and paceline-server on
this machine, SSP with threshold 3, SGD, --server-steps steps of generated data a run (gpu_threads.py has the configuration).
The last of --refresh-clocks is measured with `data.on_device: off`, too, without a limit. Its runs take turns with blocks of the fastest PyTorch variant; their limit is --server-limit. A line for each
--refresh-clocks: 1, the default, waits for the servers' newest parameters in each step; null, as in the DTSSP paper, for those
that the threshold asks for.

Prints one JSON line a cell. Exit status: 1 when a ratio is above its limit, 3 when nothing could be measured.
--device cpu tries the script itself, on a machine without a GPU.
"""
import argparse
import itertools
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from gpu_threads import make_data, one_run
from processes import fail
from step_vs_pytorch import residual, two_convolutions

NETWORKS = {"cifar_cnn": (5, 64, 64, 384), "cifar_cnn_small": (3, 32, 64, 128)}  # common/network/ready_made.cc
MODELS = (*NETWORKS, "resnet20", "resnet50")
PRECISIONS = ("fp32", "tf32", "bf16", "fp16")
LAYOUTS = ("channels_last", "plain")
OURS = {"ours": "kept", "predicted": "predicted", "sent": "sent"}  # bench_model_step's DATA


def has_limit(model, precision):
    return (model, precision) == ("resnet50", "bf16") or (model in NETWORKS and precision in ("fp32", "tf32"))


class PyTorch:
    """The training of each cell, made when it is first asked for. Imports torch, in a process of its own: what cuDNN found
    with `benchmark` would be used without it, too."""

    def __init__(self, device, layout, benchmark):
        import torch
        self.torch, self.device, self.layout = torch, device, layout
        torch.backends.cudnn.benchmark = benchmark
        self.cells, self.scalers = {}, {}

    def cell(self, model, batch):
        torch = self.torch
        if (model, batch) not in self.cells:
            nn = torch.nn
            torch.manual_seed(1)
            net = (two_convolutions(nn, *NETWORKS[model]) if model in NETWORKS else residual(nn, model)).to(self.device)
            side, classes = (224, 1000) if model == "resnet50" else (32, 10)
            images = (torch.rand(batch, 3, side, side) - 0.5).to(self.device)
            if self.layout == "channels_last":
                net = net.to(memory_format=torch.channels_last)
                images = images.to(memory_format=torch.channels_last)
            labels = torch.randint(0, classes, (batch,)).to(self.device)
            self.cells[model, batch] = net, images, labels, torch.optim.SGD(net.parameters(), lr=1e-3)
            self.scalers[model, batch] = torch.amp.GradScaler(self.device)
        return self.cells[model, batch]

    def run(self, model, batch, precision, steps):
        torch = self.torch
        net, images, labels, sgd = self.cell(model, batch)
        loss_of = torch.nn.functional.cross_entropy
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = precision == "tf32"
        narrow = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(precision)
        scaler = self.scalers[model, batch] if precision == "fp16" else None
        for _ in range(steps):
            sgd.zero_grad(set_to_none=True)
            with torch.autocast(self.device, dtype=narrow or torch.bfloat16, enabled=narrow is not None):
                loss = loss_of(net(images), labels)
            if scaler is None:
                loss.backward()
                sgd.step()
            else:
                scaler.scale(loss).backward()
                scaler.step(sgd)
                scaler.update()
        if self.device == "cuda":
            torch.cuda.synchronize()

    def profile(self, model, batch, precision):
        from torch.profiler import ProfilerActivity, profile
        self.run(model, batch, precision, 20)
        activities = [ProfilerActivity.CPU] + ([ProfilerActivity.CUDA] if self.device == "cuda" else [])
        with profile(activities=activities) as seen:
            self.run(model, batch, precision, 20)
        averages = seen.key_averages()
        for key in ("self_device_time_total", "self_cuda_time_total", "self_cpu_time_total"):  # by release
            try:
                return averages.table(sort_by=key, row_limit=30, max_name_column_width=90)
            except (AttributeError, KeyError):
                continue
        return "no table: this PyTorch names its columns otherwise\n"

    def serve(self):
        """A line of standard input, a block; `profile FILE …` adds a table to a file."""
        from time import perf_counter
        for line in sys.stdin:
            *command, model, batch, precision = line.split()
            if command[0] == "profile":
                table = self.profile(model, int(batch), precision)
                with open(command[1], "a", encoding="utf-8") as file:
                    file.write(f"{model} {batch} {precision}, 20 steps\n{table}\n")
                print("{}", flush=True)
                continue
            steps = int(command[0])
            self.cell(model, int(batch))
            begin = perf_counter()
            self.run(model, int(batch), precision, steps)
            print(json.dumps({"steps": steps, "ms": (perf_counter() - begin) * 1e3 / steps}), flush=True)


class Turner:
    """A process that does what a line says and answers with a line of JSON; ended with this one."""

    def __init__(self, *command):
        self.command = " ".join(map(str, command))
        self.process = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", *map(str, command)], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)

    def __call__(self, line):
        try:
            self.process.stdin.write(f"{line}\n")
            self.process.stdin.flush()
            answer = self.process.stdout.readline()
        except BrokenPipeError:
            answer = ""
        if not answer:
            fail(f"{self.command}: ended with status {self.process.wait()}")
        return json.loads(answer)

    def end(self):
        self.process.stdin.close()
        self.process.wait()


def measure(args, pytorch, model, batch, precision):
    where = "cpu" if args.device == "cpu" else precision
    data_of = OURS if args.device == "cuda" and not args.demanded else {"ours": "kept"}
    if model == "resnet50":  # its images are not those that a GPU keeps
        data_of = {"ours": "predicted"}
    ours = {name: Turner(args.bin / "bench_model_step", model, batch, "-", "0", where, "sgd", data)
            for name, data in data_of.items()}
    runs = {name: lambda steps, turner=turner: turner(steps)["ms"] for name, turner in ours.items()}
    for name, turner in pytorch.items():
        runs[name] = lambda steps, turner=turner: turner(f"{steps} {model} {batch} {precision}")["ms"]
    for run in runs.values():
        run(args.warm_up)
    ms = {name: [] for name in runs}
    for n in range(args.rounds):
        for name in list(runs)[:: 1 if n % 2 == 0 else -1]:
            ms[name].append(runs[name](args.steps))
    for turner in ours.values():
        turner.end()
    medians = {name: statistics.median(values) for name, values in ms.items()}
    best = min(pytorch, key=medians.get)
    ratios = [a / b for a, b in zip(ms["ours"], ms[best])]
    return {"benchmark": "gpu_step_vs_pytorch", "model": model, "batch": batch, "precision": precision,
            **{f"{name}_ms": round(value, 4) for name, value in medians.items()},
            "fastest": best, "ratio": round(statistics.median(ratios), 3), "ratios": sorted(round(r, 3) for r in ratios),
            "samples_per_second": round(1e3 * batch / medians["ours"]),
            **({"hidden": hidden(medians)} if "sent" in medians else {}),
            "limit": args.limit if has_limit(model, precision) else None}


def hidden(ms):
    """Of what sending a mini-batch adds to a step, as a fraction; None where it adds nothing."""
    return round((ms["sent"] - ms["predicted"]) / (ms["sent"] - ms["ours"]), 3) if ms["sent"] > ms["ours"] else None


def measure_server(args, pytorch, best, model, batch, precision, refresh_clocks, on_device="auto"):
    run = argparse.Namespace(bin=args.bin, data=args.data, model=model, precision=precision, steps=args.server_steps,
                             device=args.device, overrides=["train.optimizer.kind=sgd", "train.optimizer.lr=0.001",
                                                            f"sync.refresh_clocks={refresh_clocks}"])
    if on_device == "off":
        run.overrides.append("data.on_device=off")
    ms, theirs, phases = [], [], []
    for n in range(args.server):
        for turn in (0, 1) if n % 2 == 0 else (1, 0):
            if turn == 0:
                through = one_run(run, batch, 1)
                ms.append(1e3 * batch / through["samples"])
                phases.append(through["phases"])
            else:
                theirs.append(pytorch[best](f"{args.steps} {model} {batch} {precision}")["ms"])
    ratios = [a / b for a, b in zip(ms, theirs)]
    return {"benchmark": "gpu_server_vs_pytorch", "model": model, "batch": batch, "precision": precision,
            "refresh_clocks": refresh_clocks, "on_device": on_device, "steps": args.server_steps,
            "ours_ms": round(statistics.median(ms), 4), "fastest": best, f"{best}_ms": round(statistics.median(theirs), 4),
            "ratio": round(statistics.median(ratios), 3), "ratios": sorted(round(r, 3) for r in ratios),
            "phases_p50_ms": {name: round(statistics.median(run[name] for run in phases), 3)
                              for name in phases[0] if name != "unaccounted"},
            "limit": args.server_limit if has_limit(model, precision) and on_device == "auto" else None}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=Path, default=Path(__file__).resolve().parents[2] / "build/release/bin")
    parser.add_argument("--model", action="append", choices=MODELS, help="default: the first two")
    parser.add_argument("--batch", action="append", type=int, help="default: 128 and 1024")
    parser.add_argument("--precision", action="append", choices=PRECISIONS, help="default: all")
    parser.add_argument("--layout", action="append", choices=LAYOUTS, help="of PyTorch; default: channels_last")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--steps", type=int, default=20, help="of a block")
    parser.add_argument("--warm-up", type=int, default=20)
    parser.add_argument("--limit", type=float, default=1.0)
    parser.add_argument("--server", type=int, default=0, metavar="ROUNDS")
    parser.add_argument("--server-steps", type=int, default=1000)
    parser.add_argument("--refresh-clocks", action="append", help="default: 1 and null")
    parser.add_argument("--server-limit", type=float, default=1.1)
    parser.add_argument("--demanded", action="store_true", help="only what has a limit")
    parser.add_argument("--profile", type=Path)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--pytorch", nargs=2, help=argparse.SUPPRESS)  # this script as PyTorch: LAYOUT, benchmark or not
    args = parser.parse_args()
    if args.pytorch:
        PyTorch(args.device, args.pytorch[0], args.pytorch[1] == "benchmark").serve()
        return 0
    pytorch = {}
    for layout, choice in itertools.product(args.layout or LAYOUTS[:1], ("benchmark", "heuristic")):
        name = choice if len(args.layout or "1") == 1 else f"{layout}_{choice}"
        pytorch[f"pytorch_{name}"] = Turner(sys.executable, __file__, "--device", args.device, "--pytorch", layout, choice)
    made = tempfile.TemporaryDirectory(prefix="paceline.")  # gone with this process
    args.data = Path(made.name) / "data"
    if args.server:
        make_data(args.bin, args.data)
    slow = False
    for model, batch, precision in itertools.product(args.model or list(NETWORKS)[::-1], args.batch or (128, 1024),
                                                     args.precision or PRECISIONS):
        if args.demanded and not (args.precision or has_limit(model, precision)):
            continue
        if args.profile:
            pytorch[next(iter(pytorch))](f"profile {args.profile.resolve()} {model} {batch} {precision}")
        results = [measure(args, pytorch, model, batch, precision)]
        has_server = args.server and model != "resnet50"
        through = [(clocks, "auto") for clocks in args.refresh_clocks or ["1", "null"]] if has_server else []
        if through and args.device == "cuda" and not args.demanded:
            through.append((through[-1][0], "off"))
        for how in through:
            results.append(measure_server(args, pytorch, results[0]["fastest"], model, batch, precision, *how))
        for result in results:
            print(json.dumps(result), flush=True)
            slow = slow or (result["limit"] is not None and result["ratio"] > result["limit"])
    for turner in pytorch.values():
        turner.end()
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())
