"""A short one of chaos.py, with a seed with six kinds of faults. See chaos.py and harness.py."""

import pathlib
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "daemons"))
import harness  # noqa: E402 (after the path is known)

DEADLINE = 300.0  # seconds; it takes a tenth of that


class Chaos(unittest.TestCase):
    """Nothing hangs, nothing is left over, every iteration is done; how much is learned the long one compares with calm runs."""

    def test_a_run_that_is_disturbed_six_times_ends_as_if_it_had_not_been(self):
        done = subprocess.run([sys.executable, pathlib.Path(__file__).with_name("chaos.py"), harness.BIN, "--faults", "6",
                               "--seed", "22", "--calm", "0", "--iterations", "3000", "--train", "2000"],
                              capture_output=True, text=True, timeout=DEADLINE, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


if __name__ == "__main__":
    harness.main()
