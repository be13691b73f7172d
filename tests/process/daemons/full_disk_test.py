"""A disk that is full, a real one: the run directory lies on a file system of a megabyte (tmpfs) in a mount namespace of its own,
so that what a checkpoint meets is the system's own ENOSPC. See harness.py.

Under adam a checkpoint has three times the bytes of the final model: two fit, a third one does not, the model does. Skipped, with
a message, where such namespaces are not permitted.
"""

import os
import pathlib
import shutil
import signal
import subprocess
import sys
import unittest

import harness
from calm_runs import ITERATIONS, CalmRuns
from resume_test import wait_for_written

INSIDE = "--inside"  # this process has namespaces of its own
DISK = 1 << 20  # bytes; a checkpoint has 369 kB, the model 123 kB
FULL = r"no checkpoint of version \d+ of generation 1: (shard 0: )?cannot write .*: No space left on device; the newest is that of version \d+"


def enter_namespaces():
    """Begins this program anew in namespaces that end with it; returns why not, where that is not permitted."""
    unshare = ["unshare", "--map-root-user", "--mount"]
    tried = subprocess.run([*unshare, "mount", "-t", "tmpfs", "none", "/mnt"], capture_output=True, text=True, check=False)
    if tried.returncode != 0:
        return "no mount namespaces for us here: " + tried.stderr.strip()
    sys.stdout.flush()
    os.execvp("unshare", [*unshare, sys.executable, *sys.argv, INSIDE])
    return None


WHY_NOT = None  # set where the tests cannot run


class FullDisk(CalmRuns):
    """It costs checkpoints, and where nothing else fits, the results: an error that says so. What was written before is whole."""

    @classmethod
    def setUpClass(cls):
        if WHY_NOT is not None:
            print(f"skipped: {WHY_NOT}", file=sys.stderr)
            raise unittest.SkipTest(WHY_NOT)
        super().setUpClass()

    def setUp(self):
        super().setUp()
        self.disk = pathlib.Path(harness.temporary_folder())
        self.addCleanup(shutil.rmtree, self.disk)
        self.mount("mount", "-t", "tmpfs", "-o", f"size={DISK}", "none", self.disk)
        self.addCleanup(self.mount, "umount", self.disk)
        of_run = (f"train.total_iterations={ITERATIONS}", "train.optimizer.kind=adam")
        self.saves = (*of_run, "checkpoint.every_clocks=20", "checkpoint.keep=3")
        self.model = self.calm_model(*of_run)  # of a run beside that disk
        self.run_dir = self.disk / "run"
        self.configure()

    def mount(self, *command):
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)

    def fill(self):
        """To the last byte."""
        with open(self.disk / "filler", "wb", buffering=0) as filler:
            while True:
                try:
                    filler.write(bytes(4096))
                except OSError:
                    return

    def assert_all_end_well(self, programs):
        for program in programs:
            self.assertEqual(program.end(), 0, program.errors())

    def assert_is_whole(self):
        """What the run has left is what it leaves on a disk with room; returns its summary."""
        summary = self.summary()
        self.assertEqual((summary["status"], summary["iterations"]), ("ok", ITERATIONS))
        self.assertEqual((self.run_dir / "model.bin").read_bytes(), self.model)
        return summary

    def run_until_full(self):
        """A run at the moment at which a checkpoint did not fit."""
        servers, nodes = self.start_run(*self.saves)
        servers[0].wait_for_line(FULL)
        return servers, nodes

    def filled_run(self, *overrides):
        """A run whose disk, with a checkpoint on it, was filled to the last byte, and another checkpoint did not fit."""
        servers, nodes = self.start_run(*self.saves, "checkpoint.keep=1", *overrides)
        wait_for_written(self, 1)
        self.fill()
        servers[0].wait_for_line(FULL)
        return servers, nodes

    def resumed(self):
        """The summary of the run that was resumed, and has ended as one that nothing has happened to."""
        for program in [self.server(0, "--resume", *self.saves)] + [self.node(i, "--resume", *self.saves) for i in range(2)]:
            self.assertEqual(program.end(), 0, program.errors())
        return self.assert_is_whole()

    def test_a_checkpoint_that_does_not_fit_costs_nothing_else(self):
        servers, nodes = self.run_until_full()
        self.assert_all_end_well(servers + nodes)
        summary = self.assert_is_whole()
        self.assertGreaterEqual(summary["checkpoints"], 2)
        self.assertGreaterEqual(summary["checkpoints_failed"], 1)
        self.assertEqual(list(self.run_dir.rglob("*.tmp*")), [])

    def test_the_one_before_is_resumed_on_the_disk_that_is_still_full(self):
        servers, nodes = self.run_until_full()
        for program in servers + nodes:
            program.send(signal.SIGKILL)
        for program in servers + nodes:
            program.end()
        self.assertEqual(self.resumed()["generation"], 2)

    def test_checkpoints_go_on_where_somebody_makes_room(self):
        servers, nodes = self.filled_run("train.total_iterations=100000000")
        written = (self.run_dir / "server.log").read_text(encoding="utf-8").count("is written: ")
        (self.disk / "filler").unlink()
        wait_for_written(self, written + 1)
        servers[0].send(signal.SIGTERM)
        for program in servers + nodes:
            program.end()
        self.assertEqual((self.summary()["status"], self.summary()["lost_nodes"]), ("stopped", 0))

    def test_where_nobody_does_the_run_trains_to_its_end_and_says_what_it_cannot_write(self):
        servers, nodes = self.filled_run()
        for program in servers + nodes:
            self.assertEqual(program.end(), 1, program.errors())
        said = "\n".join(servers[0].errors())
        self.assertRegex(said, r"the run failed: cannot write \S+/model\.bin: No space left on device")
        self.assertRegex(said, r"start all servers again with --resume to go on from the checkpoint of version \d+")
        for node in nodes:
            self.assertRegex(node.errors()[-1], r"cannot write \S+/model\.bin: No space left on device")
        (self.disk / "filler").unlink()
        self.assertEqual(self.resumed()["generation"], 2)


if __name__ == "__main__":
    if INSIDE in sys.argv:
        sys.argv.remove(INSIDE)
    else:
        WHY_NOT = enter_namespaces()
    harness.main()
