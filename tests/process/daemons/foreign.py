"""What tests of training loops and of formats that are not ours have in common: a server, and nodes that are loops of a user's
own; and models that are exported."""

import json
import os
import re
import subprocess
import sys
import unittest

import harness
import installed
from harness import DaemonTest

OLDEST = {"torch": (2, 0)}  # what paceline.torch needs


def versions(python, *modules):
    """As installed.versions(), of an interpreter; of one that cannot say so, none."""
    if python == sys.executable:
        return installed.versions(*modules)
    asked = subprocess.run([python, installed.__file__, *modules], capture_output=True, text=True, check=False)
    return json.loads(asked.stdout) if asked.returncode == 0 else {}


def _interpreter():
    """Of the loops in Python: as said, else this one or Debian's, whichever has numpy."""
    if "PACELINE_PYTHON" in os.environ:
        return os.environ["PACELINE_PYTHON"]
    return next((python for python in (sys.executable, "/usr/bin/python3") if os.path.exists(python) and versions(python, "numpy")), sys.executable)


PYTHON = _interpreter()


def needs(*modules):
    found, missing = versions(PYTHON, *modules), []
    for module in modules:
        if module not in found:
            missing.append(f"no {module}")
        elif found[module] and tuple(map(int, re.findall(r"\d+", found[module])[:2])) < OLDEST.get(module, ()):
            missing.append(f"{module} {found[module]}, older than {'.'.join(map(str, OLDEST[module]))}")
    return unittest.skipIf(missing, f"{PYTHON} has {', '.join(missing)}")


class ForeignTest(DaemonTest):
    LOOPS = "foreign_loops.py"

    def setUp(self):
        super().setUp()
        os.environ["PACELINE_LIBRARY"] = str(harness.BIN.parent / "lib/libpaceline.so.0")
        os.environ["PYTHONPATH"] = str(harness.SOURCE / "python")

    def configure_loop(self, train, nodes=2, sync="{policy: bsp}", cluster="", exchange=""):
        self.config.write_text(
            f"run: {{name: test, out: {self.run_dir}}}\n"
            f"cluster: {{nodes: {nodes}, threads_per_node: 1, endpoints: ['{self.endpoints[0]}'], "
            f"start_timeout: 120s, {cluster}}}\nsync: {sync}\ntrain: {{{train}}}\n" + (f"exchange: {exchange}\n" if exchange else ""),
            encoding="utf-8")

    def loop(self, name, node, *arguments, of=None):
        return self.start(PYTHON, harness.SOURCE / "tests/process/daemons" / (of or self.LOOPS), name, self.config, node, *arguments)

    def example(self, name, *arguments):
        """An example's program and its configuration, on endpoints and in a folder of the test's."""
        folder = harness.SOURCE / "examples" / name
        config = next(folder.glob("*.yaml")).read_text(encoding="utf-8")
        config = re.sub(r"out: \S+}", f"out: {self.run_dir}}}", config)
        config = config.replace("cluster: {", "cluster: {start_timeout: 10m, ")  # PyTorch takes long to load on a busy machine
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
        printed = self.paceline("export", self.run_dir, "--format", format_, "--out", file)
        self.assertEqual((printed.returncode, printed.stderr), (0, ""))
        self.assertRegex(printed.stdout, rf"^{file}: version \d+ of layers, \d+ parameters\n$")
        return file

    def ask(self, what, *arguments):
        program = self.start(PYTHON, harness.SOURCE / "tests/process/daemons/formats.py", what, *arguments)
        self.assert_ends(program, 0)
        return program.output()
