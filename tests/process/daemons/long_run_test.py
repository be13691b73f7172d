"""The records of a run of ten hours with ten million phase samples, reported as text and as a page: in bounded memory.
Prints what it took. See harness.py."""

import os
import random
import resource
import subprocess
import sys
import time

import harness
from harness import DaemonTest

NODES, THREADS = 4, 4
STEPS = 69_445  # of each worker: with nine phases and 16 workers 10,000,080 samples in 36,000 s
BUCKETS = 300  # in the histogram of each phase: durations from 1 to 600 ms are as many
CURVE_ROWS = 1_000_000  # 14 times as many as the run could have with windows of one clock
BYTES_MAX = 500_000_000
PAGE_BYTES_MAX = 3_000_000
PHASES = {"BATCH": 0.02, "COMPUTE_GRADS": 0.6, "APPLY_GRADS": 0.02, "PS_APPLY_GRADS": 0.04, "STEP": 0.005, "BARRIER": 0.25,
          "PS_PARAM": 0.04, "P_CACHE_PARAM": 0.01, "T_CACHE_PARAM": 0.005}


def write_phases(folder):
    """Each phase of each worker: STEPS samples in BUCKETS buckets."""
    wall_ns = 36_000 * 10**9
    with open(folder / "phases.csv", "w", encoding="utf-8") as rows, \
            open(folder / "phases_histogram.csv", "w", encoding="utf-8") as buckets:
        rows.write("node,thread,phase,count,total_seconds,mean_ms,p50_ms,p95_ms,share,hidden_seconds\n")
        buckets.write("node,thread,phase,ns,count\n")
        for node in range(NODES):
            for thread in range(THREADS):
                for phase, share in PHASES.items():
                    total = int(wall_ns * share)
                    rows.write(f"{node},{thread},{phase},{STEPS},{total // 10**9}.{total % 10**9:09d},1,1,1,{share},0.000000000\n")
                    for nth, ns in enumerate(bucket_middles()):
                        count = STEPS // BUCKETS + (1 if nth < STEPS % BUCKETS else 0)
                        buckets.write(f"{node},{thread},{phase},{ns},{count}\n")
                rest = wall_ns // 100
                rows.write(f"{node},{thread},unaccounted,0,{rest // 10**9}.{rest % 10**9:09d},0,0,0,0.01,0.000000000\n")


def bucket_middles():
    """32 to each power of two (common/timing/histogram.h)."""
    dropped, low = 15, 32
    for _ in range(BUCKETS):
        yield (low << dropped) + (1 << dropped >> 1)
        low += 1
        if low == 64:
            dropped, low = dropped + 1, 32


def write_curve(file):
    dice = random.Random(7)
    with open(file, "w", encoding="utf-8") as out:
        out.write("seconds,version,threshold,lpr,train_loss,train_accuracy,test_accuracy,test_loss,iterations,learning_rate\n")
        for row in range(CURVE_ROWS):
            tested = f"{dice.random():.6f},{dice.random():.6f}" if row % 100 == 0 else ","
            out.write(f"{row * 0.036:.9f},{row},{3 + row // 9973 % 8},{dice.gauss(0, 5):.12f},{dice.random() + 1:.15f},"
                      f"{dice.random():.6f},{tested},{row * NODES * THREADS},0.1\n")


class LongRun(DaemonTest):
    """Ten hours of a run on 4 nodes x 4 threads."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.long_run = cls._shared / "long"
        config = cls._shared / "simulate.yaml"
        config.write_text(f"""\
cluster: {{nodes: {NODES}, threads_per_node: {THREADS}}}
train: {{model: layers, layers: [{{kind: flatten}}, {{kind: dense, out: 10}}], batch_size: 8, total_iterations: 160}}
simulate: {{compute: {{distribution: lognormal, mean: 100ms}}, metric: {{final_accuracy: 0.9, half_samples: 2000}}}}
""", encoding="utf-8")
        subprocess.run([harness.BIN / "paceline", "simulate", config, "--out", cls.long_run], stdout=subprocess.DEVNULL, check=True)
        write_phases(cls.long_run)
        write_curve(cls.long_run / "curve.csv")

    def measured(self, *arguments):
        """Runs the tool; what it says, in bounded memory. It takes seconds, and hours where a row costs the more the more
        there are: those the deadline ends."""
        began = time.monotonic()
        out = self.folder / "said"
        with out.open("wb") as file:
            program = subprocess.Popen([harness.BIN / "paceline", "report", *arguments], stdout=file)
        ended = harness.wait_for_exit(program.pid)
        if not ended:
            program.kill()
        _, status, used = os.wait4(program.pid, 0)
        program.returncode = os.waitstatus_to_exitcode(status)
        seconds, most = time.monotonic() - began, used.ru_maxrss * 1024
        how = " ".join(str(argument) for argument in arguments if str(argument).startswith("-"))
        print(f"report {how}: {seconds:.2f} s, {most / 1e6:.0f} MB", file=sys.stderr)
        self.assertTrue(ended, f"still running after {harness.DEADLINE} s")
        self.assertEqual(program.returncode, 0)
        self.assertLess(most, BYTES_MAX)
        return out.read_text(encoding="utf-8")

    def test_this_process_is_no_part_of_what_is_measured(self):
        # A child begins with the size of who forks it.
        self.assertLess(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024, 100_000_000)

    def test_as_text(self):
        output = self.measured(self.long_run)
        self.assertRegex(output, rf"all nodes \(16 workers\)[^*]* COMPUTE_GRADS .* {16 * STEPS} ")

    def test_unfinished(self):
        crashed = self.folder / "crashed"
        crashed.mkdir()
        for name in ("curve.csv", "phases.csv", "phases_histogram.csv", "config.yaml"):
            (crashed / name).symlink_to(self.long_run / name)
        self.assertIn(f"version {CURVE_ROWS - 1} after 35999.964 s", self.measured(crashed))

    def test_as_json(self):
        self.assertIn(f'"count": {16 * STEPS}', self.measured("--format", "json", self.long_run))

    def test_as_a_page(self):
        page = self.folder / "long.html"
        self.measured("--html", page, self.long_run)
        self.assertLess(page.stat().st_size, PAGE_BYTES_MAX)
        print(f"page: {page.stat().st_size / 1e6:.2f} MB", file=sys.stderr)


if __name__ == "__main__":
    harness.main()
