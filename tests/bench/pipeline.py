#!/usr/bin/env python3
"""Pipelines on this machine: beside one core, PyTorch's stages, the simulator, the same run that keeps all activations, and
the same cut on unequal nodes.

    tests/bench/pipeline.py [--bin build/release/bin] [--python PYTHON] [--only core torch loop simulated memory speeds] [--rounds 5]

    core        M / (M + K - 1) x 2 x the rate of one core is what 2 stages can reach: how much of it they do, by the faster of
                gpipe and 1f1b. Target: at least 0.92. `beside`: the same by the slower of two such runs at once, which have to
                share what the machine has; without a target
    torch       a step of ours by that of torch.distributed.pipelining, each with its fastest schedule of gpipe, 1f1b and interleaved in
                two chunks a stage, and theirs in the faster memory layout. Target: at most 0.8
    loop        the same by a step of paceline.torch.pipeline, whose stages are PyTorch's, too: of the same modules. At most 0.8
    simulated   a step that `paceline simulate` predicts by the measured one: from 0.95 to 1.05. It is told how long one node
                takes for a mini-batch in micro-batches (train.accumulate) beside another that does the same, as a stage does
    memory      kept activations of the larger stage with rematerialisation by those without: at most 0.5;
    time        and the seconds of a step, likewise: at most 1.3
    speeds      three stages on nodes of which the last is twice as fast (control groups give them 0.25, 0.25 and 0.5 of a core: wants
                root; where they cannot be made it is left out, with a line, unless it is all that is asked for): a step of the cut
                that counts products alone by one of the cut that `paceline report` advises after such a run. 24 layers and 32
                micro-batches of 6. Target: at least 1.3; 4/3 is the most without a bubble

A network of 20 convolutions of 3 x 3 and 32 channels, and one of the pictures in front, is cut in the middle. A mini-batch
is 64 samples, 8 micro-batches of 8.
One thread a process computes; a step is read from the first grant to the last reply. The kinds take turns, each round in
another order; a figure is the median of the rounds' quotients. Each round's times, load and what its stages did go to stderr. --python: one with PyTorch 2.5 or later. About two minutes a round.
One JSON line for each figure. Exit status 1 when one misses its target.
"""
import argparse
import concurrent.futures
import contextlib
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from processes import fail, run_all

ROOT = Path(__file__).resolve().parents[2]
LAYERS, CHANNELS, STAGES, MICRO_BATCHES, BATCH = 20, 32, 2, 8, 64
BOUNDS = {"core": (0.92, None), "torch": (None, 0.8), "loop": (None, 0.8), "simulated": (0.95, 1.05), "memory": (None, 0.5), "time": (None, 1.3), "speeds": (1.3, None)}
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


# ---- ours

def layers(count=LAYERS):
    convolutions = ["{kind: conv, out: %d, kernel: 3}, {kind: relu}" % CHANNELS] * (1 + count)
    return "[" + ", ".join([*convolutions, "{kind: global_average_pool}", "{kind: dense, out: 10}"]) + "]"


def config_of(folder, nodes, train, more, count=LAYERS):
    return f"""\
run: {{name: bench}}
cluster: {{nodes: {nodes}, threads_per_node: 1}}
sync: {{policy: bsp}}
data: {{kind: synthetic, path: {folder}/data, augment: false}}
train: {{model: layers, layers: {layers(count)}, optimizer: {{kind: sgd, lr: 0.001}}, eval_samples: 64, {train}}}
{more}
"""


def pipeline(schedule="1f1b", rematerialize="off", parts=STAGES):
    """A configuration's nodes, its `train` and the rest. Parts have as many convolutions, and the first has that of the pictures."""
    each = 2 * LAYERS // parts
    cut = [2 + each, *[each] * (parts - 2), each + 2]
    return STAGES, BATCH // STAGES, "", (f"pipeline: {{stages: {STAGES}, micro_batches: {MICRO_BATCHES}, schedule: {schedule}, "
                                         f"balance: {cut}, rematerialize: {rematerialize}}}")


# pair and crowded, of which two run at once, are core and parts.
OURS = {"core": (1, BATCH, "", ""), "pair": (1, BATCH, "", ""), "parts": (1, BATCH, f", accumulate: {MICRO_BATCHES}", ""),
        "crowded": (1, BATCH, f", accumulate: {MICRO_BATCHES}", ""), "stages": pipeline(),
        "kept": pipeline("gpipe"), "again": pipeline("gpipe", "on"), "interleaved": pipeline("interleaved", parts=2 * STAGES)}


def written(args, kind):
    nodes, batch, train, more = OURS[kind]
    path = args.folder / f"{kind}.yaml"
    path.write_text(config_of(args.folder, nodes, f"batch_size: {batch}, total_iterations: {nodes * args.steps}{train}", more),
                    encoding="utf-8")
    return path


def program(command, environment=None):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False, timeout=600,
                          env={**os.environ, **(environment or {})})
    if done.returncode != 0:
        fail(f"{' '.join(map(str, command))}: exit status {done.returncode}: {done.stderr.strip()[-2000:]}")
    return done.stdout


def summary_of(folder):
    return json.loads((folder / "summary.json").read_text(encoding="utf-8"))


def ours(args, kind):
    out = args.folder / kind
    program(run_of(args, written(args, kind), out), ONE_THREAD)
    return figures_of(args, out)


def run_of(args, config, out):
    return [ROOT / "scripts/run_local.sh", config, "--out", out, "--force", "--force", "--bin", args.bin]


def pair(args, kind):
    """The slower of two runs at once; computing is the mean of both."""
    config, outs = written(args, kind), [args.folder / f"{kind}{n}" for n in range(2)]
    with concurrent.futures.ThreadPoolExecutor() as both:
        list(both.map(lambda out: program(run_of(args, config, out), ONE_THREAD), outs))
    figures = [figures_of(args, out) for out in outs]
    return {**max(figures, key=lambda one: one["seconds"]), "computes": statistics.mean(one["computes"] for one in figures)}


def figures_of(args, out):
    summary = summary_of(out)
    return {"seconds": summary["wall_seconds"] / args.steps, "pipeline": summary.get("pipeline"),
            "computes": summary["phases"]["COMPUTE_GRADS"]["mean_ms"] / 1e3}


def simulated(args, seconds_of_step):
    """Seconds of a step of the stages, told what one node took for the mini-batch."""
    out = args.folder / "simulated"
    program([args.bin / "paceline", "simulate", written(args, "stages"), "--out", out, "--force", "--force",
             "simulate.compute.distribution=constant", f"simulate.compute.mean={round(seconds_of_step * 1e9 / STAGES)}ns"])
    return summary_of(out)["wall_seconds"] / args.steps


# ---- unequal nodes

SHARES = (0.25, 0.25, 0.5)  # of a core, that each node has
PERIOD_US = 4_000           # in which it may use them: short beside a pass, so that a wait saves nothing up


class NoControlGroupsError(Exception):
    """Says why there are none."""


@contextlib.contextmanager
def control_groups():
    """Of each node one that has its share; their folders. Errors: NoControlGroupsError."""
    old = Path("/sys/fs/cgroup/cpu")  # version 1
    root = old if (old / "tasks").exists() else Path("/sys/fs/cgroup")
    made = []
    try:
        try:
            for n, share in enumerate(SHARES):
                folder = root / f"paceline-bench.{os.getpid()}.{n}"
                folder.mkdir()
                made.append(folder)
                quota = round(share * PERIOD_US)
                # Ahead of whatever else this machine does, which would slow both cuts, but not alike.
                texts = ({"cpu.cfs_period_us": PERIOD_US, "cpu.cfs_quota_us": quota, "cpu.shares": 262144} if root == old else
                         {"cpu.max": f"{quota} {PERIOD_US}", "cpu.weight": 10000})
                for name, text in texts.items():
                    (folder / name).write_text(str(text), encoding="utf-8")
        except OSError as error:
            why = f"control groups for processor time: {error}; wants root and the controller cpu in {root}"
            raise NoControlGroupsError(why) from error
        yield made
    finally:
        for folder in made:
            with contextlib.suppress(OSError):  # one that cannot go must not hide what failed before
                folder.rmdir()


def on_unequal_nodes(args, groups, balance):
    """Seconds of a step, with that cut, and the cut that is advised after it."""
    stages, micro_batches, samples = len(SHARES), 32, 192
    out, config = args.folder / "unequal", args.folder / "unequal.yaml"
    config.write_text(config_of(args.folder, stages, f"batch_size: {samples // stages}, total_iterations: {stages * args.steps}",
                                f"pipeline: {{stages: {stages}, micro_batches: {micro_batches}, schedule: 1f1b, balance: {balance}}}", 24)
                      .replace("run: {", f"run: {{out: {out}, ").replace("cluster: {", f"cluster: {{endpoints: ['ipc://{args.folder}/unequal.0'], "),
                      encoding="utf-8")
    shutil.rmtree(out, ignore_errors=True)
    os.environ.update(ONE_THREAD)
    inside = ["sh", "-c", 'echo $$ > "$0/cgroup.procs" && exec "$@"']
    run_all([[str(args.bin / "paceline-server"), str(config)],
             *([*inside, str(group), str(args.bin / "paceline-worker"), str(config), "--node", str(node)]
               for node, group in enumerate(groups))], args.folder)
    advised = re.search(r"stage speeds (.*): pipeline\.balance: (\[.*\]) would", program([args.bin / "paceline", "report", out]))
    return {**figures_of(args, out), "advised": advised and advised[2], "speeds": advised and advised[1]}


def unequal(args):
    with control_groups() as groups:
        first = on_unequal_nodes(args, groups, "time")
        if not first["advised"]:
            fail(f"no other cut is advised: {first}")
        print("measured", first, file=sys.stderr, flush=True)
        rounds = []
        for n in range(args.rounds):
            both = {kind: on_unequal_nodes(args, groups, balance)
                    for kind, balance in (("time", "time"), ("advised", first["advised"]))[::1 if n % 2 else -1]}
            print("round", n, "load", os.getloadavg()[0], {kind: shown(args, one) for kind, one in both.items()}, file=sys.stderr, flush=True)
            rounds.append(both)
    return judged("speeds", [one["time"]["seconds"] / one["advised"]["seconds"] for one in rounds], speeds=first["speeds"],
                  cut=first["pipeline"].get("layers"), advised=first["advised"], cut_ms=ms(rounds, "time"), advised_ms=ms(rounds, "advised"))


# ---- PyTorch's

LAYOUTS = ("contiguous_format", "channels_last")
WARM_UP = 2  # steps that do not count


def modules_of(layout, parts=STAGES):
    """Of each stage, or chunk, in that memory layout; imports torch."""
    import torch
    from torch import nn

    class Laid(torch.autograd.Function):
        @staticmethod
        def forward(_, x, layout):
            return x.contiguous(memory_format=layout)

        @staticmethod
        def backward(_, gradient):
            return gradient.contiguous(), None  # what Gloo sends is row-major

    class Layout(nn.Module):
        def __init__(self, layout):
            super().__init__()
            self.layout = layout

        def forward(self, x):
            return Laid.apply(x, self.layout)

    torch.manual_seed(1)
    stages = []
    for part in range(parts):
        ins = ([3] if part == 0 else []) + [CHANNELS] * (LAYERS // parts)
        made = [nn.Sequential(nn.Conv2d(each, CHANNELS, 3, padding=1), nn.ReLU(inplace=True)) for each in ins]
        last = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(CHANNELS, 10)] if part == parts - 1 else [
            Layout(torch.contiguous_format)]
        memory_format = getattr(torch, layout)
        stages.append([Layout(memory_format), *(each.to(memory_format=memory_format) for each in (*made, *last))])
    return stages


def samples():
    import torch
    torch.manual_seed(2)
    return torch.rand(BATCH, 3, 32, 32) - 0.5, torch.randint(0, 10, (BATCH,))


def torch_stage(args):
    """One process of theirs; imports torch only here. Prints the seconds of a step of each schedule and layout."""
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    import torch
    from torch import nn
    from torch.distributed import pipelining
    torch.set_num_threads(1)
    rank = args.torch_stage
    torch.distributed.init_process_group("gloo", init_method=f"file://{args.folder}/store", rank=rank, world_size=STAGES)
    images, labels = samples()
    seconds = {}
    for layout in LAYOUTS:
        for schedule, chunks in ((pipelining.ScheduleGPipe, 1), (pipelining.Schedule1F1B, 1), (pipelining.ScheduleInterleaved1F1B, 2)):
            parts = STAGES * chunks
            own = {part: nn.Sequential(*made) for part, made in enumerate(modules_of(layout, parts)) if part % STAGES == rank}
            optimizer = torch.optim.SGD([each for module in own.values() for each in module.parameters()], lr=0.001)
            stages = [pipelining.PipelineStage(module, part, parts, torch.device("cpu")) for part, module in own.items()]
            run = schedule(stages if chunks > 1 else stages[0], MICRO_BATCHES, loss_fn=nn.CrossEntropyLoss())
            begin = 0.0
            for step in range(WARM_UP + args.torch_steps):
                if step == WARM_UP:
                    torch.distributed.barrier()
                    begin = time.perf_counter()
                optimizer.zero_grad()
                if rank == 0:
                    run.step(images)
                else:
                    run.step(target=labels, losses=[])
                optimizer.step()
            torch.distributed.barrier()
            seconds[f"{schedule.__name__} {layout}"] = (time.perf_counter() - begin) / args.torch_steps
    print(json.dumps(seconds), flush=True)
    os._exit(0)  # torch 2.13 waits in destroy_process_group() for ever


def theirs(args, _):
    with tempfile.TemporaryDirectory(prefix="paceline.") as made:
        folder = Path(made)
        os.environ.update(ONE_THREAD)
        run_all([[str(args.python), __file__, "--torch-stage", str(rank), "--folder", made, "--torch-steps", str(args.torch_steps)]
                 for rank in range(STAGES)], folder)
        seconds = json.loads((folder / "stdout0").read_text().splitlines()[-1])
    best = min(seconds, key=seconds.get)
    return {"seconds": seconds[best], "best": best}


def loop_stage(args):
    """One process of the same modules as a node of a run of ours. Prints the seconds of a step."""
    import torch
    from torch import nn

    import paceline.torch
    torch.set_num_threads(1)
    stages = modules_of(args.layout)
    images, labels = samples()
    begin = end = 0.0
    steps = WARM_UP + args.torch_steps
    with paceline.torch.pipeline(nn.Sequential(*(module for stage in stages for module in stage)), nn.CrossEntropyLoss(),
                                 str(args.folder / "loop.yaml"), args.loop_stage, example=images[:1],
                                 balance=[len(stage) for stage in stages]) as run:
        for step in range(steps + 1):  # after the last one the run's end is waited for
            if step == WARM_UP:
                begin = time.perf_counter()
            if step == steps:
                end = time.perf_counter()
            run.step(images, labels)
    print(json.dumps((end - begin) / args.torch_steps), flush=True)


def loops(args, _):
    """The fastest of both schedules and layouts, as of theirs."""
    seconds = {}
    for layout in LAYOUTS:
        for schedule in ("gpipe", "1f1b"):
            with tempfile.TemporaryDirectory(prefix="paceline.") as made:
                folder = Path(made)
                steps = STAGES * (WARM_UP + args.torch_steps + 1)
                (folder / "loop.yaml").write_text(f"""\
run: {{name: loop, out: {folder}/run}}
cluster: {{nodes: {STAGES}, threads_per_node: 1, endpoints: ["ipc://{folder}/server"], start_timeout: 300s}}
sync: {{policy: bsp}}
pipeline: {{stages: {STAGES}, micro_batches: {MICRO_BATCHES}, schedule: {schedule}, balance: loop}}
train: {{batch_size: {BATCH // STAGES}, total_iterations: {steps}, optimizer: {{kind: sgd, lr: 0.001}}}}
""", encoding="utf-8")
                os.environ.update(ONE_THREAD, PYTHONPATH=str(ROOT / "python"),
                                  PACELINE_LIBRARY=str(args.bin.resolve().parent / "lib/libpaceline.so.0"))
                run_all([[str(args.bin / "paceline-server"), str(folder / "loop.yaml")],
                         *([str(args.python), __file__, "--loop-stage", str(rank), "--layout", layout, "--folder", made,
                            "--torch-steps", str(args.torch_steps)] for rank in range(STAGES))], folder)
                seconds[f"{schedule} {layout}"] = max(float((folder / f"stdout{1 + rank}").read_text().splitlines()[-1])
                                                      for rank in range(STAGES))
    best = min(seconds, key=seconds.get)
    return {"seconds": seconds[best], "best": best}


# ---- the whole

def judged(figure, values, **more):
    value = statistics.median(values)
    least, most = BOUNDS[figure]
    ok = (least is None or value >= least) and (most is None or value <= most)
    print(json.dumps({"benchmark": "pipeline", "figure": figure, "value": round(value, 4), "at_least": least, "at_most": most,
                      "ok": ok, "range": [round(min(values), 4), round(max(values), 4)], **more,
                      "load": round(os.getloadavg()[0], 1)}), flush=True)
    return ok


def ms(rounds, kind):
    return round(1e3 * statistics.median(one[kind]["seconds"] for one in rounds), 1)


def shown(args, one):
    """Milliseconds of a step; of stages, too, what each did: computed, waited for the previous, for the next."""
    output = {"ms": round(1e3 * one["seconds"], 1)}
    if one.get("pipeline"):
        for key in ("busy_seconds", "idle_for_previous_seconds", "idle_for_next_seconds"):
            output[key.replace("seconds", "ms")] = [round(1e3 * each / args.steps, 1) for each in one["pipeline"].get(key, [])]
    return output


def measure(args):
    # What a figure is made of.
    kinds = {"core": ("core", "pair", "stages", "kept"), "torch": ("stages", "kept", "interleaved", "torch"), "loop": ("loop", "torch"),
             "simulated": ("parts", "crowded", "stages"), "memory": ("kept", "again"), "speeds": ()}
    figures = list(args.only)
    if "speeds" in figures:
        try:
            with control_groups():
                pass
        except NoControlGroupsError as why:
            if figures == ["speeds"]:
                fail(str(why))
            print(f"speeds is left out: {why}", file=sys.stderr, flush=True)
            figures.remove("speeds")
    wanted = list(dict.fromkeys(kind for figure in figures for kind in kinds[figure]))
    program([args.bin / "paceline", "data", "synthesize", "--out", args.folder / "data"])
    rounds = []
    for n in range(args.rounds if wanted else 0):
        order = wanted[n % len(wanted):] + wanted[:n % len(wanted)]
        rounds.append({kind: {"torch": theirs, "loop": loops, "pair": pair, "crowded": pair}.get(kind, ours)(args, kind) for kind in order})
        print("round", n, "load", os.getloadavg()[0], {kind: shown(args, one) for kind, one in rounds[-1].items()}, file=sys.stderr,
              flush=True)
    ok = True
    if "core" in figures:
        ideal = MICRO_BATCHES / (MICRO_BATCHES + STAGES - 1) * STAGES
        faster = [min(one["stages"]["seconds"], one["kept"]["seconds"]) for one in rounds]

        def share(kind):
            return [one[kind]["seconds"] / least / ideal for one, least in zip(rounds, faster)]
        ok &= judged("core", share("core"), beside=round(statistics.median(share("pair")), 4), core_ms=ms(rounds, "core"),
                     pair_ms=ms(rounds, "pair"), stages_ms=ms(rounds, "stages"), gpipe_ms=ms(rounds, "kept"),
                     bubble=statistics.median(one["stages"]["pipeline"]["bubble_share"] for one in rounds),
                     formula=(STAGES - 1) / (MICRO_BATCHES + STAGES - 1))
    if "torch" in figures:
        ours_kinds = ("stages", "kept", "interleaved")
        ok &= judged("torch", [min(one[kind]["seconds"] for kind in ours_kinds) / one["torch"]["seconds"] for one in rounds],
                     ours_ms={kind: ms(rounds, kind) for kind in ours_kinds}, torch_ms=ms(rounds, "torch"),
                     best=sorted({one["torch"]["best"] for one in rounds}))
    if "loop" in figures:
        ok &= judged("loop", [one["loop"]["seconds"] / one["torch"]["seconds"] for one in rounds], ours_ms=ms(rounds, "loop"),
                     torch_ms=ms(rounds, "torch"), best=sorted({one[kind]["best"] for one in rounds for kind in ("loop", "torch")}))
    if "simulated" in figures:
        printed, alone = (statistics.median(one[kind]["computes"] for one in rounds) for kind in ("crowded", "parts"))
        step = simulated(args, printed)
        ok &= judged("simulated", [step / one["stages"]["seconds"] for one in rounds], told_ms=round(1e3 * printed, 1), alone_ms=round(1e3 * alone, 1),
                     simulated_ms=round(1e3 * step, 1), measured_ms=ms(rounds, "stages"))
    if "memory" in figures:
        def most(one, kind):
            return max(one[kind]["pipeline"]["peak_activation_bytes"])
        ok &= judged("memory", [most(one, "again") / most(one, "kept") for one in rounds],
                     kept=most(rounds[0], "kept"), again=most(rounds[0], "again"))
        ok &= judged("time", [one["again"]["seconds"] / one["kept"]["seconds"] for one in rounds], kept_ms=ms(rounds, "kept"),
                     again_ms=ms(rounds, "again"))
    if "speeds" in figures:
        ok &= unequal(args)
    return 0 if ok else 1


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=Path, default=ROOT / "build/release/bin")
    parser.add_argument("--python", type=Path, default=sys.executable)
    figures = ("core", "torch", "loop", "simulated", "memory", "speeds")
    parser.add_argument("--only", nargs="+", choices=figures, default=figures)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--torch-steps", type=int, default=5)
    parser.add_argument("--torch-stage", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--loop-stage", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--layout", choices=LAYOUTS, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.torch_stage is not None:
        torch_stage(args)
        return 0
    if args.loop_stage is not None:
        loop_stage(args)
        return 0
    with tempfile.TemporaryDirectory(prefix="paceline-") as folder:
        args.folder = Path(folder)
        return measure(args)


if __name__ == "__main__":
    sys.exit(main())
