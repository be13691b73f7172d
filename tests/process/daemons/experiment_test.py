"""scripts/reproduce_dtssp.sh: small versions of the real thing, what it prints, what it keeps. See harness.py."""

import json
import os
import re
import signal

import harness
from harness import ScriptTest


class DtsspExperiment(ScriptTest):
    """Tables beside the published ones, out of runs that are made once."""

    def setUp(self):
        super().setUp()
        self.out = self.folder / "dtssp"

    def reproduce(self, *arguments, bin_folder=None):
        return self.start("bash", harness.SOURCE / "scripts/reproduce_dtssp.sh", "--out", self.out, "--bin",
                          bin_folder or harness.BIN, *arguments)

    def wall(self, run):
        return json.loads((self.out / run / "summary.json").read_text(encoding="utf-8"))["wall_seconds"]

    def test_table_1_says_of_its_runs_what_they_say_and_stands_beside_the_published_one(self):
        script = self.reproduce("--iterations", "1600", "--seeds", "1", "table1")
        self.assertEqual(script.end(), 0, script.errors())
        said = script.output()
        for refresh in ("null", "1"):
            for threads, published in ((1, "-1.49"), (2, "-8.52"), (4, "-14.72")):
                folder = f"table1/{refresh}-{threads}"
                ours, theirs = self.wall(f"{folder}/dtssp-1"), self.wall(f"{folder}/ssp3-1")
                self.assertIn(f"{4 * threads:>3} workers  {100 * (ours - theirs) / theirs:+.2f} % too few seeds;  "
                              f"published {published} %", said)
        self.assertNotIn("nan", said)
        # 16 workers: windows of 10 clocks, 160 x 128 samples, and an accuracy that rises by far more than 5 %.
        self.assertRegex(said, r"DTSSP's threshold, 16 workers, seed 1: 10 windows of 10 clocks, 20480 samples\n"
                               r"  3 -> 4 after 20.00 % of the run, .* s: LPR \+")
        self.assertRegex(said, r"standard deviation \d\.\d\d % expected \(binomial\)")
        phase = re.search(r"Fig. 9, 10: 16 workers, refresh_clocks null.*?BARRIER +(\S+)", said, re.DOTALL).group(1)
        summary = json.loads((self.out / "table1/null-4/bsp-1/summary.json").read_text(encoding="utf-8"))
        self.assertEqual(phase, f"{summary['phases']['BARRIER']['total_seconds'] / 16:.1f}")

    def test_a_run_is_made_once_and_again_when_it_is_another_or_gone(self):
        arguments = ("--sweep-iterations", "64", "--seeds", "1", "sweep")
        self.assertEqual(self.reproduce(*arguments).end(), 0)
        runs = sorted(self.out.glob("sweep/*/*/summary.json"))
        self.assertEqual(len(runs), 11 * 6)
        before = {run: run.stat().st_mtime_ns for run in runs}
        runs[5].unlink()
        script = self.reproduce(*arguments)
        self.assertEqual(script.end(), 0, script.errors())
        self.assertEqual([run for run in runs if run.stat().st_mtime_ns != before[run]], [runs[5]])
        self.assertRegex(script.output(), r"DTSSP against asp\n    as-assumed +[+-]\d+\.\d\d % too few seeds")

    def test_a_run_that_fails_is_said_and_the_others_are_made(self):
        tools = self.folder / "tools"
        self.stand_in(tools / "paceline", f"""
case "$*" in simulate*equal-speeds-no-jitter/asp-1*) echo "no such luck" >&2; exit 1 ;; esac
exec {harness.BIN}/paceline "$@"
""")
        script = self.reproduce("--sweep-iterations", "16", "--seeds", "1", "sweep", bin_folder=tools)
        self.assertEqual(script.end(), 1)
        self.assertIn(f"reproduce_dtssp: {self.out}/sweep/equal-speeds-no-jitter/asp-1 failed: no such luck", script.errors())
        self.assertIn("equal-speeds-no-jitter       unknown", script.output())
        self.assertEqual(len(list(self.out.glob("sweep/*/*/summary.json"))), 65)

    def test_the_whole_experiment_is_a_list_of_cells_each_with_all_iterations_of_real_images(self):
        tools = self.folder / "tools"
        cifar = self.folder / "cifar"
        cifar.mkdir()
        (cifar / "test_batch.bin").touch()
        asked = self.folder / "asked"
        self.stand_in(tools / "paceline", f"""[ "$1" = simulate ] && echo "$@" >>{asked}\nexit 1\n""")
        script = self.reproduce("--full", cifar, "dtssp:4:2", "bsp:1:7", bin_folder=tools)
        self.assertEqual(script.end(), 1)
        cells = asked.read_text(encoding="utf-8").splitlines()
        self.assertEqual(len(cells), 2)
        for cell, run, threads, seed, policy in ((cells[0], "full/4/dtssp-2", 4, 2, "dtssp"),
                                                 (cells[1], "full/1/bsp-7", 1, 7, "bsp")):
            for argument in (f"--out {self.out}/{run} ", f"cluster.threads_per_node={threads} ", f"run.seed={seed} ",
                             "data.kind=cifar10 ", f'data.path="{cifar}" ', "simulate.mode=training ",
                             f"sync.policy={policy}"):
                self.assertIn(argument, cell)
            self.assertNotIn("total_iterations", cell)  # the configuration's 100000

    def test_a_signal_stops_it_and_the_same_command_goes_on(self):
        tools = self.folder / "tools"
        begun = self.folder / "begun"
        os.mkfifo(begun)
        self.stand_in(tools / "paceline", f"""[ "$1" = simulate ] || exit 1\necho begun >{begun}\nexec sleep 1000\n""")
        for number in (signal.SIGTERM, signal.SIGINT):
            script = self.reproduce("sweep", bin_folder=tools)
            self.assertEqual(begun.read_text(encoding="utf-8"), "begun\n")
            script.send(number)
            self.assertEqual(script.end(), 1)
            self.assertEqual(script.errors()[-1],
                             f"reproduce_dtssp: stopped; the same command goes on with {self.out}/sweep/as-assumed/bsp-1")
            self.wait_for_no_children(script)

    def test_wrong_usage(self):
        for *arguments, complaint in (
                ("table3", "no part 'table3' (see --help)"),
                ("--seeds", "none", "--seeds needs a number, got 'none'"),
                ("--seeds", "0", "--seeds needs 1 or more"),
                ("--iterations", "--iterations needs a number"),
                ("--nonsense", "unknown option '--nonsense' (see --help)"),
                ("bsp:4:1", "cells go with --full (see --help)"),
                ("--full", "absent", "no CIFAR-10 in 'absent' (its binary format; see --help)")):
            with self.subTest(arguments=arguments):
                script = self.reproduce(*arguments)
                self.assertEqual((script.end(), script.errors()), (2, [f"reproduce_dtssp: {complaint}"]))
        (self.folder / "test_batch.bin").touch()
        for cell in ("tap:4:1", "bsp:3:1", "bsp:4:x"):
            script = self.reproduce("--full", self.folder, cell)
            self.assertEqual((script.end(), script.errors()), (2, [f"reproduce_dtssp: no cell '{cell}' (see --help)"]))


if __name__ == "__main__":
    harness.main()
