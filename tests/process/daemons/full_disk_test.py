"""A disk that is full, a real one: the run directory lies on a file system of a megabyte (tmpfs) in a mount namespace of its own,
so that what a checkpoint meets is the system's own ENOSPC. See harness.py.

Under adam a checkpoint has three times the bytes of the final model: two fit, a third one does not, the model does. No run ends
by itself before what its test waits for has happened, however slow the machine is: it is long, or its end comes with a resume.
Skipped, with a message, where such namespaces are not permitted.
"""

import pathlib
import shutil
import signal

import harness
import namespaces
from calm_runs import ITERATIONS, CalmRuns
from namespaces import InNamespaces

WORKERS = 4  # of a run of these tests
DISK = 1 << 20  # bytes; a checkpoint has 369 kB, the model 123 kB
FULL = r"no checkpoint of version \d+ of generation \d: (shard 0: )?cannot write .*: No space left on device; the newest is that of version \d+"


class FullDisk(InNamespaces, CalmRuns):
    """It costs checkpoints, and where nothing else fits, the results: an error that says so. What was written before is whole."""

    def setUp(self):
        super().setUp()
        self.disk = pathlib.Path(harness.temporary_folder())
        self.addCleanup(shutil.rmtree, self.disk)
        namespaces.run("mount", "-t", "tmpfs", "-o", f"size={DISK}", "none", self.disk)
        self.addCleanup(namespaces.run, "umount", self.disk)
        self.adam = "train.optimizer.kind=adam"
        self.saves = (self.adam, "checkpoint.every_clocks=20", "checkpoint.keep=3")
        self.run_dir = self.disk / "run"
        self.configure()

    def fill(self, but=0):
        """To the last byte, but for so many."""
        with open(self.disk / "filler", "wb", buffering=0) as filler:
            while True:
                try:
                    filler.write(bytes(4096))
                except OSError:
                    return filler.truncate(max(0, filler.tell() - but))

    def assert_all_end_well(self, programs):
        self.assert_succeed(programs)

    def assert_is_whole(self, iterations):
        """What the run has left is what it leaves on a disk with room; returns its summary."""
        summary = self.summary()
        self.assertEqual((summary["status"], summary["iterations"]), ("ok", iterations))
        calm = self.calm_model(self.adam, f"train.total_iterations={iterations}")  # of a run beside that disk
        self.assertEqual((self.run_dir / "model.bin").read_bytes(), calm)
        return summary

    def killed_when_full(self):
        """A run without an end in sight, killed once a checkpoint did not fit; returns a number of iterations beyond its own."""
        servers, nodes = self.start_run(*self.saves)
        servers[0].wait_for_line(FULL)
        for program in servers + nodes:
            program.send(signal.SIGKILL)
        for program in servers + nodes:
            program.end()
        newest = max(int(path.parent.name.split("-v")[1]) for path in self.run_dir.glob("checkpoint/*/manifest"))
        return WORKERS * (newest + 200)

    def resume(self, *overrides):
        return [self.server(0, "--resume", *self.saves, *overrides)] + [self.node(i, "--resume", *self.saves, *overrides) for i in range(2)]

    def resumed(self, iterations):
        """The summary of the run that was resumed, and has ended as one that nothing has happened to."""
        self.assert_all_end_well(self.resume(f"train.total_iterations={iterations}"))
        return self.assert_is_whole(iterations)

    def test_a_checkpoint_that_does_not_fit_costs_nothing_else(self):
        # The first half leaves one checkpoint; of the second one's, of which the last is written after the model, one fits.
        half = ITERATIONS // 2
        self.assert_all_end_well(sum(self.start_run(self.adam, "checkpoint.every_clocks=1000000", f"train.total_iterations={half}"), []))
        programs = self.resume(f"train.total_iterations={ITERATIONS}")
        self.assert_all_end_well(programs)
        self.assertRegex("\n".join(programs[0].errors()), FULL)
        summary = self.assert_is_whole(ITERATIONS)
        self.assertGreaterEqual(summary["checkpoints"], 1)
        self.assertGreaterEqual(summary["checkpoints_failed"], 1)
        self.assertEqual(list(self.run_dir.rglob("*.tmp*")), [])

    def test_the_one_before_is_resumed_on_the_disk_that_is_still_full(self):
        iterations = self.killed_when_full()
        self.assertEqual(self.resumed(iterations)["generation"], 2)

    def test_checkpoints_go_on_where_somebody_makes_room(self):
        servers, nodes = self.start_run(*self.saves, "checkpoint.keep=1")
        self.wait_for_written(1)
        self.fill()
        servers[0].wait_for_line(FULL)
        written = (self.run_dir / "server.log").read_text(encoding="utf-8").count("is written: ")
        (self.disk / "filler").unlink()
        self.wait_for_written(written + 1)
        servers[0].send(signal.SIGTERM)
        for program in servers + nodes:
            program.end()
        self.assertEqual((self.summary()["status"], self.summary()["lost_nodes"]), ("stopped", 0))

    def test_where_nobody_does_the_run_trains_to_its_end_and_says_what_it_cannot_write(self):
        iterations = self.killed_when_full()
        self.fill(but=65536)  # room for logs, not for a model of 123 kB
        server, *nodes = self.resume(f"train.total_iterations={iterations}")
        for program in (server, *nodes):
            self.assertEqual(program.end(), 1, program.errors())
        output = "\n".join(server.errors())
        self.assertRegex(output, FULL)
        self.assertRegex(output, r"the run failed: cannot write \S+/model\.bin: No space left on device")
        self.assertRegex(output, r"start all servers again with --resume to go on from the checkpoint of version \d+")
        for node in nodes:
            self.assertRegex(node.errors()[-1], r"cannot write \S+/model\.bin: No space left on device")
        (self.disk / "filler").unlink()
        self.assertEqual(self.resumed(iterations)["generation"], 3)


def try_to_mount():
    namespaces.run("mount", "-t", "tmpfs", "none", "/mnt")
    namespaces.run("umount", "/mnt")  # the checkout may lie there


if __name__ == "__main__":
    namespaces.main(["mount"], try_to_mount)
