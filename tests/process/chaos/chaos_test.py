"""A short one of chaos.py, with six kinds of faults. See there, and harness.py."""

import contextlib
import io
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "daemons"))
import chaos  # noqa: E402 (after the path is known)
import harness  # noqa: E402
from schedule import Kind  # noqa: E402


class Chaos(unittest.TestCase):
    """Nothing hangs, nothing is left over, every iteration is done; how much is learned the long one compares with calm runs."""

    def test_a_run_that_is_disturbed_six_times_does_what_it_was_to_do(self):
        output = io.StringIO()
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
            status = chaos.main([str(harness.BIN), "--faults", "6", "--seed", "22", "--calm", "0", "--iterations", "3000",
                                 "--train", "2000", "run.name=chaos"])
        self.assertEqual(status, 0, output.getvalue())

    def test_a_seed_says_what_is_done_to_whom_and_when(self):
        faults = chaos.schedule(7, 100, 10000, nodes=3, shards=2)
        self.assertEqual(faults, chaos.schedule(7, 100, 10000, nodes=3, shards=2))
        self.assertNotEqual(faults, chaos.schedule(8, 100, 10000, nodes=3, shards=2))
        self.assertEqual([fault.number for fault in faults], list(range(1, 101)))
        self.assertEqual(sorted(fault.version for fault in faults), [fault.version for fault in faults])
        self.assertTrue(0 < faults[0].version and faults[-1].version < 10000)
        self.assertEqual({fault.kind for fault in faults}, set(Kind))


if __name__ == "__main__":
    harness.main()
