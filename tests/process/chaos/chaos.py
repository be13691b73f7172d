#!/usr/bin/env python3
"""A run that is disturbed again and again learns what a calm one learns, and nothing hangs or is left over.

    chaos.py BIN [--faults 100] [--seed 1] [--calm 3] [--iterations 60000] [--train 16000] [key=value…]

Three nodes train a small network over two shards, with a checkpoint every 20 versions and `cluster.reconnect_timeout`. FAULTS
times somebody is killed, stopped for a while (SIGSTOP) or asked to end, at moments of the run that the seed says (schedule.py);
what has ended is started again with --resume (cluster.py). Beside it CALM runs of the same configuration, in which nothing
happens. `key=value` overrides the configuration (cluster.py) in all of them.

Prints each fault with its moment, each end of a process that nobody had harmed, and what came out. Exit status 1 when

- the disturbed run's status is not ok, or it has not done each of its iterations;
- it gets no further for PROGRESS_WITHIN, or a process does not end after it;
- a process has ended by a signal that it was not sent, or has said what only a broken program says, or a node that took part
  ends by itself;
- processes or unfinished files are left over, or a process holds many more descriptors than at first;
- its accuracy is more than 1.5 points below the mean of the calm runs, or is no accuracy of something that has learned.

Exit status 2: wrong usage. What a failed run has left is kept, and its folder printed.
"""
import argparse
import pathlib
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "daemons"))
import verdict  # noqa: E402 (after the path is known)
from cluster import NODES, SHARDS, Cluster, Hang, log_tail  # noqa: E402
from faults import Injector  # noqa: E402
from schedule import schedule  # noqa: E402

TEST_SAMPLES = 4000


def run_to_the_end(cluster, faults):
    """Returns the faults that came, and what is wrong."""
    injector = Injector(cluster, faults)
    wrong = []
    try:
        cluster.run()
        wrong += verdict.wrong_with(cluster, len(faults) - len(injector.done))
    except (Hang, AssertionError) as error:
        wrong.append(f"it hangs: {error}")
    finally:
        cluster.end_all()
    if wrong:
        print(log_tail(cluster))
    return injector.done, wrong


def compare(programs, folder, arguments):
    """All runs; returns what is wrong with one of them."""
    data = folder / "data"
    subprocess.run([programs / "paceline", "data", "synthesize", "--out", data, "--train", str(arguments.train), "--test",
                    str(TEST_SAMPLES)], check=True, stdout=subprocess.DEVNULL)

    def cluster_in(name):
        (folder / name).mkdir()
        return Cluster(programs, folder / name, data, arguments.iterations, arguments.override)

    calm = []
    for number in range(1, arguments.calm + 1):
        cluster = cluster_in(f"calm-{number}")
        _, wrong = run_to_the_end(cluster, [])
        if wrong:
            return [f"calm run {number}: {what}" for what in wrong]
        calm.append(cluster.summary()["test_accuracy"])
        print(f"{cluster.seconds():7.1f} s  calm run {number}: accuracy {calm[-1]:.2%}", flush=True)
    cluster = cluster_in("chaos")
    faults = schedule(arguments.seed, arguments.faults, arguments.iterations // NODES, NODES, SHARDS)
    done, wrong = run_to_the_end(cluster, faults)
    if not wrong:
        accuracy = cluster.summary()["test_accuracy"]
        wrong += verdict.wrong_with_accuracy(accuracy, calm)
        print(verdict.report(cluster, done))
        beside = f", calm {statistics.mean(calm):.2%} ({', '.join(f'{one:.2%}' for one in calm)})" if calm else ""
        print(f"accuracy {accuracy:.2%}{beside}")
    return wrong


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin", type=pathlib.Path, help="the folder of the programs")
    parser.add_argument("--faults", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--calm", type=int, default=3)
    parser.add_argument("--iterations", type=int, default=60000)
    parser.add_argument("--train", type=int, default=16000, help="training samples")
    parser.add_argument("override", nargs="*", metavar="key=value")
    arguments = parser.parse_intermixed_args(argv)  # key=value may stand after options
    if arguments.faults < 1 or arguments.calm < 0 or arguments.iterations < 3000 or arguments.train < 1000:
        parser.error("expected a fault or more, no negative number of calm runs, 3000 iterations and 1000 samples or more")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that nothing is left over
    folder = pathlib.Path(tempfile.mkdtemp(prefix="paceline-chaos-"))  # short: socket paths have 107 bytes
    wrong = ["it was interrupted"]
    try:
        wrong = compare(arguments.bin.resolve(), folder, arguments)
    finally:
        if not wrong:
            shutil.rmtree(folder)
    for what in wrong:
        print(f"chaos: seed {arguments.seed}: {what}", file=sys.stderr)
    if wrong:
        print(f"chaos: {folder} is kept", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
