"""What tests of training loops that are not ours have in common: a server, and nodes that are loops of a user's own."""

import importlib.util
import os
import subprocess
import sys
import unittest

import harness
from harness import DaemonTest

# The interpreter that runs the loops in Python; one with torch, where this one has none.
PYTHON = os.environ.get("PACELINE_PYTHON", sys.executable)


def has(module):
    if PYTHON == sys.executable:
        return importlib.util.find_spec(module) is not None
    return subprocess.run([PYTHON, "-c", f"import {module}"], capture_output=True, check=False).returncode == 0


def needs(*modules):
    missing = [module for module in modules if not has(module)]
    return unittest.skipIf(missing, f"{PYTHON} has no {', '.join(missing)}")


class ForeignTest(DaemonTest):
    def setUp(self):
        super().setUp()
        os.environ["PACELINE_LIBRARY"] = str(harness.BIN.parent / "lib/libpaceline.so.0")
        os.environ["PYTHONPATH"] = str(harness.SOURCE / "python")

    def configure_loop(self, train, nodes=2, sync="{policy: bsp}", cluster=""):
        self.config.write_text(
            f"run: {{name: test, out: {self.run_dir}}}\n"
            f"cluster: {{nodes: {nodes}, threads_per_node: 1, endpoints: ['{self.endpoints[0]}'], "
            f"start_timeout: 120s, {cluster}}}\nsync: {sync}\ntrain: {{{train}}}\n", encoding="utf-8")

    def loop(self, name, node, *arguments):
        return self.start(PYTHON, harness.SOURCE / "tests/process/daemons/foreign_loops.py", name, self.config, node, *arguments)
