"""Two of bsp_kills.py. See there, and harness.py."""

import contextlib
import io
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "daemons"))
import bsp_kills  # noqa: E402 (after the path is known)
import harness  # noqa: E402
from calm_runs import ITERATIONS  # noqa: E402


class BspKills(unittest.TestCase):
    """The server of a run whose nodes live on, and all processes of a run on two shards, at some moment."""

    def test_runs_that_are_killed_end_in_the_bits_of_runs_in_peace(self):
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            status = bsp_kills.main([str(harness.BIN), "--runs", "2", "--seed", "2914",
                                     "--iterations", str(3 * ITERATIONS)])
        self.assertEqual(status, 0, output.getvalue())
        self.assertNotIn("over before that", output.getvalue())
        self.assertRegex(output.getvalue(), "0: 1 shards, .*, nodes wait: all servers after .*\n1: 2 shards, .*: everything after")


if __name__ == "__main__":
    harness.main()
