"""The run's server, a process beside the driver, for as long as the training lasts."""

import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from typing import Mapping, Sequence, Union

from paceline._programs import EXISTING, start
from paceline.worker import Error

# How long a server that was asked to end may take for its last version.
_STOP_S = 20.0
_LINES_KEPT = 20
# Executors are launched, and read their rows, before they join.
_START_TIMEOUT_DEFAULT, _START_TIMEOUT = "1m", "10m"


def yaml_of(value) -> str:
    """A configuration given as a mapping, in one line. A string is quoted, but for a number with its unit ("10s", "4MiB"),
    which in quotes would be no number."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{json.dumps(str(key))}: {yaml_of(each)}" for key, each in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(yaml_of, value)) + "]"
    if isinstance(value, str) and re.fullmatch(r"[0-9.]+[A-Za-z]+", value):
        return value
    return json.dumps(value)


class Setup:
    """What server and workers must know of a run: its configuration as it comes to, and keys, in a folder of this user's."""

    def __init__(self, config: Union[str, Mapping], overrides: Sequence[str], programs: pathlib.Path, host: str, workers: int,
                 at_start: int, bind: str):
        self.programs = programs
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="paceline-spark-"))  # readable by nobody else
        try:
            if isinstance(config, Mapping):
                self.source = self.folder / "config"
                self.source.write_text(yaml_of(config), encoding="utf-8")
            else:
                self.source = pathlib.Path(config)
            nodes = str(workers) if at_start == workers else f"{{min: {at_start}, max: {workers}}}"
            self.given = [*overrides, f"cluster.nodes={nodes}", "cluster.threads_per_node=1", "cluster.shards=1"]
            self._protect(workers)
            self.port = _free_port(bind)
            self.bound = f'cluster.endpoints=["tcp://{_bracketed(bind)}:{self.port}"]'
            self.reached = f'cluster.endpoints=["tcp://{_bracketed(host)}:{self.port}"]'
            if not self.get("run.out"):
                self.given.append(f"run.out={json.dumps(os.path.join('runs', self.get('run.name')))}")
            self.out = os.path.abspath(self.get("run.out"))
            self.given.append(f"run.out={json.dumps(self.out)}")
            if self.get("cluster.start_timeout") == _START_TIMEOUT_DEFAULT:
                self.given.append(f"cluster.start_timeout={_START_TIMEOUT}")
            self.batch_size = int(self.get("train.batch_size"))
            self._checked("--get", "run.name", self.reached)  # what the tasks are told can be read
            self.text = self.source.read_text(encoding="utf-8")
        except BaseException:
            self.close()
            raise

    def _protect(self, workers: int) -> None:
        # Asked of a run that listens nowhere: as it is it may need keys to be one.
        nowhere = 'cluster.endpoints=["ipc://nowhere"]'
        keys = self._checked("--get", "security.keys", nowhere).strip()
        if keys == "null" and self._checked("--get", "security.allow_insecure", nowhere).strip() == "false":
            keys = str(self.folder / "keys")
            self._call("keygen", "--out", keys, "--nodes", str(workers))
            self.given.append(f"security.keys={json.dumps(keys)}")
        self.keys = {} if keys == "null" else {
            file.name: file.read_bytes() for file in pathlib.Path(keys).iterdir()
            if file.name == "server.pub" or (file.name.startswith("node") and file.suffix == ".key")}

    def get(self, key: str) -> str:
        value = self._checked("--get", key, self.bound).strip()
        return "" if value == "null" else value

    def _checked(self, *arguments) -> str:
        return self._call("check-config", str(self.source), *self.given, *arguments)

    def _call(self, *arguments) -> str:
        done = subprocess.run([self.programs / "paceline", *arguments], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            lines_of = done.stderr.strip().splitlines() or [f"paceline {arguments[0]}: ended with status {done.returncode}"]
            raise Error("INVALID_ARGUMENT", lines_of[-1].replace(f"{self.folder}/", ""))
        return done.stdout

    def close(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)


class Server:
    """The process. It ends with close(), and with this process, however that ends."""

    def __init__(self, setup: Setup, existing: str):
        if existing not in EXISTING:
            raise ValueError(f"existing: got {existing!r}, expected one of {', '.join(EXISTING)}")
        self._process = start([setup.programs / "paceline-server", setup.source, *EXISTING[existing], *setup.given, setup.bound],
                              stderr=subprocess.PIPE, text=True)
        self.pid = self._process.pid
        self.lines: "list[str]" = []  # the last it said
        self._reader = threading.Thread(target=self._read, daemon=True, name="paceline-server")
        self._reader.start()

    def _read(self) -> None:
        for line in self._process.stderr:
            del self.lines[:-_LINES_KEPT]
            self.lines.append(line.rstrip("\n"))
            print(line, end="", file=sys.stderr, flush=True)

    def wait(self) -> int:
        """Until it has ended; its exit status."""
        status = self._process.wait()
        self._reader.join()
        return status

    def close(self) -> None:
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(_STOP_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
            finally:
                if self._process.poll() is None:  # a second Ctrl-C
                    self._process.kill()
        self.wait()


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _free_port(host: str) -> int:
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.bind((host, 0))
        return probe.getsockname()[1]
