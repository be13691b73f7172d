"""What tests of training loops and of formats that are not ours have in common: a server, and nodes that are loops of a user's
own; and models that are exported."""

import importlib.util
import json
import os
import re
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
    LOOPS = "foreign_loops.py"

    def setUp(self):
        super().setUp()
        os.environ["PACELINE_LIBRARY"] = str(harness.BIN.parent / "lib/libpaceline.so.0")
        os.environ["PYTHONPATH"] = str(harness.SOURCE / "python")

    def configure_loop(self, train, nodes=2, sync="{policy: bsp}", cluster=""):
        self.config.write_text(
            f"run: {{name: test, out: {self.run_dir}}}\n"
            f"cluster: {{nodes: {nodes}, threads_per_node: 1, endpoints: ['{self.endpoints[0]}'], "
            f"start_timeout: 120s, {cluster}}}\nsync: {sync}\ntrain: {{{train}}}\n", encoding="utf-8")

    def loop(self, name, node, *arguments, of=None):
        return self.start(PYTHON, harness.SOURCE / "tests/process/daemons" / (of or self.LOOPS), name, self.config, node, *arguments)

    def example(self, name, *arguments):
        """An example's program and its configuration, on endpoints and in a folder of the test's."""
        folder = harness.SOURCE / "examples" / name
        config = next(folder.glob("*.yaml")).read_text(encoding="utf-8")
        config = re.sub(r"out: \S+}", f"out: {self.run_dir}}}", config)
        self.config.write_text(re.sub(r'"tcp://\S+"', f'"{self.endpoints[0]}"', config), encoding="utf-8")
        return (folder / "train.py", "--config", self.config, *arguments)

    def launch(self, *arguments, module="paceline.launch", **options):
        return self.start(PYTHON, "-m", module, "--programs", harness.BIN, self.config, *arguments, **options)


class FormatsTest(ForeignTest):
    """Runs of the built-in network, whose model is exported."""

    def train(self, layers, *overrides, iterations=8):
        """A run of the built-in network, whose layers are in its configuration."""
        self.configure(text="\nsync: {policy: bsp}\n")
        text = self.config.read_text(encoding="utf-8").replace("[{kind: flatten}, {kind: dense, out: 10}]", json.dumps(layers))
        self.config.write_text(text, encoding="utf-8")
        return self.assert_all_done(*self.start_run(f"train.total_iterations={iterations}", *overrides))

    def export(self, format_):
        file = self.folder / f"model.{format_}"
        said = self.paceline("export", self.run_dir, "--format", format_, "--out", file)
        self.assertEqual((said.returncode, said.stderr), (0, ""))
        self.assertRegex(said.stdout, rf"^{file}: version \d+ of layers, \d+ parameters\n$")
        return file

    def ask(self, what, *arguments):
        program = self.start(PYTHON, harness.SOURCE / "tests/process/daemons/formats.py", what, *arguments)
        self.assert_ends(program, 0)
        return program.output()
