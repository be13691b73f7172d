"""paceline report as a process: its formats, and when it is coloured. What stands in them is looked at in
tests/unit/report_*_test.cc. See harness.py."""

import csv
import io
import json
import os
import pty
import re
import subprocess

import harness
from harness import DaemonTest


class ReportFormats(DaemonTest):
    """Of one simulated run, and of the same one twice."""

    def setUp(self):
        super().setUp()
        self.config.write_text("""\
cluster: {nodes: 2, threads_per_node: 2}
train: {model: layers, layers: [{kind: flatten}, {kind: dense, out: 10}], batch_size: 8, total_iterations: 200}
simulate: {compute: {distribution: lognormal, mean: 100ms}, metric: {final_accuracy: 0.9, half_samples: 2000}}
""", encoding="utf-8")
        self.assertEqual(self.paceline("simulate", self.config, "--out", self.run_dir).returncode, 0)

    def report(self, *arguments):
        done = self.paceline("report", *arguments)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout

    def on_a_terminal(self, **environment):
        """What it writes to one."""
        ours, its = pty.openpty()
        program = subprocess.Popen([harness.BIN / "paceline", "report", self.run_dir], stdout=its,
                                   env={**os.environ, "TERM": "xterm", **environment})
        os.close(its)
        output = b""
        try:
            while part := os.read(ours, 65536):
                output += part
        except OSError:
            pass  # so ends a terminal that nobody writes to any more
        os.close(ours)
        self.assertEqual(program.wait(harness.DEADLINE), 0)
        return output.decode().replace("\r\n", "\n")

    def test_it_is_coloured_on_a_terminal_alone_and_not_where_the_user_says_so(self):
        plain = self.report(self.run_dir)
        self.assertNotIn("\033", plain)
        coloured = self.on_a_terminal(NO_COLOR="")
        self.assertIn("\033[1m", coloured)
        self.assertEqual(re.sub("\033\\[[0-9]*m", "", coloured), plain)
        self.assertEqual(self.on_a_terminal(NO_COLOR="1"), plain)
        self.assertEqual(self.on_a_terminal(TERM="dumb"), plain)

    def test_csv_and_json_are_read_by_others_and_agree_with_the_summary(self):
        phases = self.summary()["phases"]
        rows = list(csv.DictReader(io.StringIO(self.report("--format", "csv", self.run_dir))))
        totals = {row["phase"]: float(row["total_seconds"]) for row in rows if row["node"] == "all"}
        for phase, of in phases.items():
            self.assertAlmostEqual(totals[phase], of["total_seconds"], places=6)
        (run,) = json.loads(self.report("--format", "json", self.run_dir))["runs"]
        self.assertEqual(run["summary"], self.summary())
        several = list(csv.DictReader(io.StringIO(self.report("--format", "csv", self.run_dir, self.run_dir))))
        self.assertEqual([row["run"] for row in several], [str(self.run_dir)] * 2)
        for phase, of in phases.items():
            self.assertAlmostEqual(float(several[0][f"{phase}_seconds"]), of["total_seconds"] / 4, places=6)

    def test_an_unknown_format_is_wrong_usage(self):
        done = self.paceline("report", "--format", "xml", self.run_dir)
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        for word in ("xml", "table", "csv", "json", "markdown"):
            self.assertIn(word, done.stderr)


if __name__ == "__main__":
    harness.main()
