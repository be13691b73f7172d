"""paceline sweep as a process: stopped, killed, continued; with one process or two at a time. See harness.py."""

import os
import re
import shutil
import signal

import harness
from harness import DaemonTest


TRAINING = ("simulate.mode=training", "simulate.metric.final_accuracy=null", "simulate.metric.half_samples=100000")


class Sweeps(DaemonTest):
    """A sweep that is cut off keeps what is finished and goes on there; its table is the same as if it had not been."""

    def setUp(self):
        super().setUp()
        self.config.write_text("""\
cluster: {nodes: 2, threads_per_node: 2}
sync: {policy: ssp, lpr: {window_clocks: 50}}
train: {model: layers, layers: [{kind: flatten}, {kind: dense, out: 10}], batch_size: 8, total_iterations: 2000}
simulate: {compute: {distribution: lognormal, mean: 100ms}, metric: {final_accuracy: 0.9, half_samples: 2000}}
""", encoding="utf-8")

    GRID = ("sync.threshold=1,3,5", "simulate.compute.slowdown=[1,1],[1,2]", "run.seed=1,2")  # 12 points

    def sweep(self, out, *arguments):
        return self.start(harness.BIN / "paceline", "sweep", self.config, "--out", self.folder / out, "--target", "0.5",
                          *arguments)

    def tables(self, out):
        return [(self.folder / out / name).read_text(encoding="utf-8") for name in ("sweep.csv", "sweep.dat")]

    def finished(self, out):
        """The folders of finished points with the times of their summaries."""
        return {run.parent.name: run.stat().st_mtime_ns for run in (self.folder / out).glob("*/summary.json")}

    def whole(self, out, *arguments):
        program = self.sweep(out, *self.GRID, *arguments)
        self.assertEqual(program.end(), 0, program.errors())
        self.assertEqual(program.output(), f"{self.folder / out}: 12 of 12 points in {self.folder / out}/sweep.csv")
        return program

    def test_one_process_or_two_write_the_same_tables(self):
        program = self.whole("one", "--jobs", "1")
        self.assertEqual(len(program.errors()), 13)
        self.assertEqual(program.errors()[0], "[0/12] 12 to run, 1 at a time: a line for each that ends")
        self.assertRegex(program.errors()[1], r"^\[1/12\] 01-threshold=1_slowdown=1-1_seed=1: ok, [\d.]+ s of virtual")
        self.whole("two", "--jobs", "2")
        table, blocks = self.tables("one")
        self.assertEqual([table, blocks], self.tables("two"))
        rows = table.splitlines()
        self.assertEqual(len(rows), 13)
        self.assertTrue(rows[1].startswith('01-threshold=1_slowdown=1-1_seed=1,1,"[1, 1]",1,ok,1,2000,'), rows[1])
        self.assertNotEqual(rows[1].split(",")[-1], "")  # it reached the target
        # A series for each threshold, a line for each slowdown, the two seeds together.
        self.assertEqual(blocks.count("\n\n\n"), 2)
        self.assertEqual(blocks.count('\n"slowdown=1-2" 1 2 '), 3)
        # The documentation draws the columns that the file says.
        columns = dict(reversed(name.split()[:2]) for name in blocks.splitlines()[0][2:].split("  "))
        first = int(columns["s_to_target"])
        printed = (harness.SOURCE / "docs/SIMULATOR.md").read_text(encoding="utf-8")
        self.assertEqual(re.findall(r"using 2:(\d+):(\d+):(\d+):", printed), [(str(first), str(first + 1), str(first + 2))])
        self.assertEqual(re.findall(r"`s_to_target` in\s+`sweep.dat` are (\d+) to (\d+)", printed), [(str(first), str(first + 2))])
        # Started again, it has nothing left to do.
        before = self.finished("one")
        self.assertEqual(self.whole("one").errors(), [])
        self.assertEqual((self.finished("one"), self.tables("one")), (before, [table, blocks]))

    def test_killed_or_stopped_it_goes_on_and_ends_in_the_same_tables(self):
        self.whole("whole")
        for number, ends in ((signal.SIGKILL, -9), (signal.SIGTERM, 1), (signal.SIGINT, 1), (signal.SIGHUP, 1)):
            with self.subTest(signal=number):
                out = self.folder / f"cut-{number}"
                shutil.copytree(self.folder / "whole", out)
                for run in sorted(out.glob("[01]*-*"))[4:]:
                    shutil.rmtree(run)
                # The sixth point cannot begin before somebody reads what its process says.
                log = out / "06-threshold=3_slowdown=1-1_seed=2/simulate.log"
                log.parent.mkdir()
                os.mkfifo(log)
                program = self.sweep(out, *self.GRID, "--jobs", "1")
                program.wait_for_line(r"^\[5/12\] 05-")
                program.send(number)
                if number == signal.SIGKILL:
                    self.assertEqual(program.end(), -9)
                else:
                    with log.open(encoding="utf-8"):
                        self.assertEqual(program.end(), 1, program.errors())
                    self.assertRegex(program.errors()[-1],
                                     r"^paceline sweep: stopped with \d+ of 12 points finished; the same command goes on$")
                before = self.finished(out)
                self.assertGreaterEqual(len(before), 5)
                self.assertLess(len(before), 12)
                rows = self.tables(out)[0].splitlines()[1:]
                self.assertEqual([row.split(",")[0] for row in rows], sorted(before))
                log.unlink()
                # What a process leaves that is killed between two of its files.
                half = out / "12-threshold=5_slowdown=1-2_seed=2"
                half.mkdir()
                (half / "curve.csv").write_text("seconds,ver", encoding="utf-8")
                self.whole(out.name)
                self.assertEqual(self.tables(out), self.tables("whole"))
                after = self.finished(out)
                self.assertEqual({name: after[name] for name in before}, before, "a finished point was run again")

    def test_it_stops_at_once_though_some_point_is_always_over(self):
        """Points shorter than the writing of their tables: there is always an end to be taken before the signal."""
        axes = ("train.total_iterations=4", "run.seed=" + ",".join(str(seed) for seed in range(400)))
        program = self.sweep("many", *axes, "--jobs", "8")
        program.wait_for_line(r"^\[20/400\] ")
        program.send(signal.SIGTERM)
        program.send(signal.SIGINT)  # while the processes are being ended, or before
        self.assertEqual(program.end(), 1, program.errors())
        stopped = re.fullmatch(r"paceline sweep: stopped with (\d+) of 400 points finished; the same command goes on",
                               program.errors()[-1])
        self.assertIsNotNone(stopped, program.errors()[-1])
        self.assertLess(int(stopped[1]), 200)
        self.assertEqual(len(self.tables("many")[0].splitlines()), 1 + int(stopped[1]))

    def test_a_point_that_fails_ends_no_other_and_is_named(self):
        out = self.folder / "failing"
        self.whole("failing")
        for run in (out / "02-threshold=1_slowdown=1-1_seed=2", out / "03-threshold=1_slowdown=1-2_seed=1"):
            shutil.rmtree(run)
        (out / "02-threshold=1_slowdown=1-1_seed=2/phases.csv").mkdir(parents=True)  # where a file is to be
        (out / "02-threshold=1_slowdown=1-1_seed=2/phases.csv/x").touch()
        program = self.sweep(out, *self.GRID, "--jobs", "1")
        self.assertEqual(program.end(), 1)
        self.assertEqual(program.errors()[-1],
                         "paceline sweep: 02-threshold=1_slowdown=1-1_seed=2: exit status 1, see "
                         f"{out}/02-threshold=1_slowdown=1-1_seed=2/simulate.log")
        self.assertEqual(len(self.tables(out)[0].splitlines()), 1 + 11)

    def test_what_is_wrong_with_a_sweep_is_said_in_one_line_before_anything_runs(self):
        out = self.folder / "out"
        for arguments, complaint in (
                ((), "no axis, expected key.path=value,value,… or a file of --grid"),
                (("sync.treshold=1,2",), "point 1 of 2, treshold=1: command line: sync.treshold: unknown key, .*"),
                (("sync.threshold=1,-2",), "point 2 of 2, threshold=-2: command line: sync.threshold: .*"),
                (("sync.threshold=",), "command line: sync.threshold: an axis without a value, .*"),
                (("sync.threshold=1,01",), "point 2 of 2, threshold=01: the same configuration as point 1, .*"),
                (("run.seed=1,2", "run.seed=3"), "run.seed: on two axes, expected one axis for each key"),
                (("run.seed=1,2", "--trace", "absent"), r"cannot read absent/summary\.json: .*"),
                (("run.seed=1,2", *TRAINING, f"data.path={self.folder}/none"),
                 "point 1 of 2, seed=1: data folder '.*/none' does not exist; .*"),
                (("run.seed=1,2", *TRAINING), "point 1 of 2, .*data.path: no data set, got none, .*"),
                (("--grid", "absent"), "cannot read absent: .*")):
            with self.subTest(arguments=arguments):
                program = self.sweep(out, *arguments)
                self.assert_ends(program, 2, f"paceline sweep: {complaint}")
                self.assertFalse(out.exists())
        self.assertEqual(self.sweep(out, "run.seed=1,2").end(), 0)
        self.assert_ends(self.sweep(out, "run.seed=1,3"), 2,
                         f"paceline sweep: {out} is the directory of another sweep: .*another --out")


if __name__ == "__main__":
    harness.main()
