"""Many small runs that are disturbed, each as its seed says: what replica_kills.py and bsp_kills.py have in common. A run has two
nodes with two threads and a network of one layer, and takes seconds.
"""
import argparse
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "daemons"))
from harness import Program  # noqa: E402 (after the path is known)

CONFIG = """\
run: {{seed: {seed}, out: {folder}/run}}
cluster: {{nodes: 2, threads_per_node: 2, shards: {shards}, endpoints: [{endpoints}], heartbeat: 200ms, start_timeout: 30s}}
train: {{model: layers, layers: [{{kind: flatten}}, {{kind: dense, out: 10}}], batch_size: 8, total_iterations: {iterations}}}
data: {{kind: synthetic, path: {data}}}
"""


class Daemons:
    """A run's configuration in `folder`, and the programs that have been started of it; `printed` is said to each."""

    def __init__(self, programs, folder, data, seed, shards, iterations, replicas=1, printed=()):
        self.programs, self.folder, self.run_dir, self.printed = programs, folder, folder / "run", tuple(printed)
        self.iterations = iterations
        self.started = []
        endpoints = ", ".join(f'"ipc://{folder}/{k}.{r}"' for r in range(replicas) for k in range(shards))
        (folder / "run.yaml").write_text(CONFIG.format(folder=folder, data=data, seed=seed, shards=shards, endpoints=endpoints,
                                                       iterations=iterations), encoding="utf-8")

    def start(self, program, *arguments):
        started = Program(self.programs / program, self.folder / "run.yaml", *arguments, *self.printed)
        self.started.append(started)
        return started

    def server(self, shard, *arguments):
        return self.start("paceline-server", "--shard", shard, *arguments)

    def node(self, number, *arguments):
        return self.start("paceline-worker", "--node", number, *arguments)

    def end_all(self):
        for program in self.started:
            if program.process.poll() is None:
                program.process.kill()
            program.end()


def ended_otherwise(programs):
    """Who of these has not ended well, and what it said."""
    return [f"{program.name} ended with {program.process.returncode}: {program.errors()[-1:]}"
            for program in programs if program.end() != 0]


def parser(description, runs, iterations):
    arguments = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("bin", type=pathlib.Path)
    arguments.add_argument("--runs", type=int, default=runs)
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--iterations", type=int, default=iterations, help="of each run")
    return arguments


def run_all(arguments, one_run, as_promised):
    """Calls one_run(folder, data, chosen), which prints what it does and returns what is wrong, so often, `chosen` being a
    generator of the seed and the run's number. Prints how many were `as_promised`; what the others have left is kept, and its
    folder printed. Returns the exit status."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="paceline-kills-"))
    data = folder / "data"
    subprocess.run([arguments.bin / "paceline", "data", "synthesize", "--out", data, "--train", "400", "--test", "100"], check=True,
                   stdout=subprocess.DEVNULL)
    failed = 0
    for n in range(arguments.runs):
        print(f"{n}: ", end="")
        of_run = folder / str(n)
        of_run.mkdir()
        wrong = one_run(of_run, data, random.Random(f"{arguments.seed} {n}"))
        print("; ".join(wrong) if wrong else "ok", flush=True)
        if wrong:
            failed += 1
        else:
            shutil.rmtree(of_run)
    print(f"{arguments.runs - failed} of {arguments.runs} runs {as_promised}")
    if failed:
        print(f"what failed is in {folder}")
        return 1
    shutil.rmtree(folder)
    return 0
