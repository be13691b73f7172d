"""Two of replica_kills.py. See there, and harness.py."""

import contextlib
import io
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "daemons"))
import etcd  # noqa: E402 (after the path is known)
import harness  # noqa: E402
from calm_runs import ITERATIONS  # noqa: E402
import replica_kills  # noqa: E402


@etcd.needs_etcd
class ReplicaKills(unittest.TestCase):
    """The authority of a run is killed, and a shard's server of another stands still until its second one serves."""

    def test_runs_that_lose_a_replica_end_as_if_nothing_had_happened(self):
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            status = replica_kills.main([str(harness.BIN), "--runs", "2", "--seed", "3033",
                                         "--iterations", str(3 * ITERATIONS)])
        self.assertEqual(status, 0, output.getvalue())
        self.assertNotIn("over before that", output.getvalue())
        self.assertRegex(output.getvalue(), r"0: .*, 2 shards: one first \(0\) after .*\n1: .*, 2 shards: stopped \(1\) after")


if __name__ == "__main__":
    harness.main()
