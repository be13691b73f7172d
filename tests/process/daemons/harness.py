"""Real daemons on real sockets: processes with their error output, and runs made of them. Each fault must end in one clear
line, a truthful exit status (0 ok, 1 failed or stopped, 2 wrong usage), no hang and no process left behind.

    {runs,crashes,input,run_scripts,scripts}_test.py BIN SOURCE [Class[.test]…]     BIN: the folder of the programs, SOURCE: the checkout

Nothing here sleeps: a test waits for a line, an end or bytes, each with a deadline. The test process adopts orphans
(PR_SET_CHILD_SUBREAPER), so that whatever a daemon or a script leaves behind becomes its child and is found.
"""

import contextlib
import ctypes
import json
import os
import pathlib
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import unittest

SANITIZED = os.environ.get("PACELINE_SANITIZED") == "1"  # as the build says: they are several times as slow
DEADLINE = 360.0 if SANITIZED else 120.0  # seconds; generous, for a busy machine. No test waits for it to pass.
START_TIMEOUT = "120s" if SANITIZED else "30s"  # of daemons; who waits for one that ends first is still there then
TRACER_ENDS = 5.0  # seconds that the helper process of a killed program may need to end; a process left behind needs more
BIN = pathlib.Path()  # set by main()
SOURCE = pathlib.Path()
# The authority's progress line, the first as training begins; and what a node says while it waits, which on a busy
# machine any node does.
PROGRESS = re.compile(r"^(version \d+ |paceline-worker \d+: for \d+\.\d s: )")
WAITING = re.compile(r"^(resuming|gathering|ending|closing|filing): ")  # a server's, of what takes long: as on a slow machine

PR_SET_CHILD_SUBREAPER = 36
ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def temporary_folder():
    """A folder /tmp/paceline-test-PID-…; what killed test processes left of theirs is removed (tests/unit/temp_folder.h)."""
    for left in pathlib.Path(tempfile.gettempdir()).glob("paceline-test-*"):
        owner = left.name.split("-")[2]
        if owner.isdigit() and not pathlib.Path(f"/proc/{owner}").exists():
            shutil.rmtree(left, ignore_errors=True)
    return tempfile.mkdtemp(prefix=f"paceline-test-{os.getpid()}-")


def wait_for_exit(pid, deadline=DEADLINE):
    """True once the process has ended; it is not reaped."""
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        poll = select.poll()
        poll.register(fd, select.POLLIN)
        return bool(poll.poll(int(deadline * 1000)))
    finally:
        os.close(fd)


def children_of(parent):
    """Process ids of a process's children; none of one that has ended."""
    found = []
    with contextlib.suppress(FileNotFoundError):
        for task in os.listdir(f"/proc/{parent}/task"):
            # A thread may just have ended; its children are another's now.
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                with open(f"/proc/{parent}/task/{task}/children", encoding="ascii") as file:
                    found += [int(pid) for pid in file.read().split()]
    return found


def children():
    """This process's, adopted ones included."""
    return children_of("self")


def descendants_of(parent):
    """Process ids of a process's children, theirs, and so on."""
    return [found for child in children_of(parent) for found in (child, *descendants_of(child))]


def command_of(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return "?"


def daemons_of(parent, name="paceline-"):
    """Process ids of the daemons among a process's descendants, by what their program's name begins with. A script's own
    children are not, whatever their arguments name."""
    programs = {pid: os.path.basename(command_of(pid).partition(" ")[0]) for pid in descendants_of(parent)}
    return [pid for pid, program in programs.items() if program.startswith(name)]


def left_behind(grace, kept=()):
    """Children of this process, adopted ones included, that run on, but for those to be kept: by process id their commands;
    they are killed.

    A sanitizer looks for leaks, as a program ends, from a helper process that the kernel kills with it: where the program was
    killed just then, its helper is ours for a moment, and then has ended: `grace`, in seconds.
    """
    left = {}
    for pid in set(children()) - set(kept):
        if not wait_for_exit(pid, grace):
            left[pid] = command_of(pid)
            os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    return left


def is_crash(line):
    """Whether a line of error output is one that only a broken program says."""
    return any(trace in line for trace in ("Sanitizer", "runtime error", "terminate called", "assertion", "  #"))


class Program:
    """A running program whose output is read as it comes, both streams; with `errors_to`, a descriptor, its error output
    goes there instead, and is the test's."""

    def __init__(self, *command, cwd=None, errors_to=None):
        self.name = pathlib.Path(str(command[0])).name
        self.process = subprocess.Popen([str(part) for part in command], stdin=subprocess.DEVNULL, cwd=cwd,
                                        stdout=subprocess.PIPE, text=True,
                                        stderr=subprocess.PIPE if errors_to is None else errors_to)
        self.pid = self.process.pid
        self._changed = threading.Condition()
        self._lines = {"out": [], "err": []}
        streams = [(stream, self._lines[name]) for stream, name in ((self.process.stdout, "out"), (self.process.stderr, "err"))
                   if stream is not None]
        self._streams_open = len(streams)
        self._threads = [threading.Thread(target=self._read, args=stream_and_lines, daemon=True)
                         for stream_and_lines in streams]
        for thread in self._threads:
            thread.start()

    def _read(self, stream, lines):
        for line in stream:
            with self._changed:
                lines.append(line.rstrip("\n"))
                self._changed.notify_all()
        stream.close()
        with self._changed:
            self._streams_open -= 1
            self._changed.notify_all()

    def line_or_end(self, pattern, after=0):
        """The first line of the error output that matches, of those after the first `after`, or None where the program ends
        without; fails at the deadline."""
        expression = re.compile(pattern)

        def found():
            return next((line for line in self._lines["err"][after:] if expression.search(line)), None)

        with self._changed:
            if not self._changed.wait_for(lambda: found() or self._streams_open == 0, DEADLINE):
                raise AssertionError(f"{self.name}: no line '{pattern}' within {DEADLINE} s in {self._lines['err']}")
            return found()

    def wait_for_line(self, pattern):
        """The first line of the error output that matches; fails when none comes before the end, or by the deadline."""
        line = self.line_or_end(pattern)
        if line is None:
            raise AssertionError(f"{self.name}: ended without a line '{pattern}' in {self._lines['err']}")
        return line

    def send(self, number):
        self.process.send_signal(number)

    def end(self):
        """Waits for the end of the program; returns its exit status (-9: killed)."""
        if not wait_for_exit(self.pid, DEADLINE):  # a class may have set another
            self.process.kill()
            self.process.wait()
            raise AssertionError(f"{self.name}: still running after {DEADLINE} s; said {self._lines['err']}")
        status = self.process.wait()
        for thread in self._threads:
            thread.join(DEADLINE)
        return status

    def errors(self):
        """What it said on its error output but the progress lines; complete after end()."""
        with self._changed:
            return [line for line in self._lines["err"] if not (PROGRESS.match(line) or WAITING.match(line))]

    def lines_printed(self):
        """How many lines its error output has so far."""
        with self._changed:
            return len(self._lines["err"])

    def output(self):
        with self._changed:
            return "\n".join(self._lines["out"])


def nodes_of(overrides):
    """How many nodes such a run has."""
    given = [each.partition("=")[2] for each in overrides if each.startswith("cluster.nodes=")]
    return int(given[-1]) if given else 2


class DaemonTest(unittest.TestCase):
    """A folder with a small data set and configuration for each test; nothing may be left behind."""

    _data = None
    kept = ()  # process ids of what all tests of a class share

    @classmethod
    def setUpClass(cls):
        cls._shared = pathlib.Path(temporary_folder())
        made = subprocess.run([BIN / "paceline", "data", "synthesize", "--out", cls._shared / "data",
                               "--train", "400", "--test", "100"], capture_output=True, text=True, check=False)
        if made.returncode != 0:
            raise AssertionError(made.stderr)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls._shared)

    def setUp(self):
        self.folder = pathlib.Path(temporary_folder())  # short: socket paths have 107 bytes
        self.run_dir = self.folder / "run"
        self.config = self.folder / "run.yaml"
        self.data = self._shared / "data"
        self.programs = []
        self.configure()

    def tearDown(self):
        running = [program for program in self.programs if program.process.poll() is None]
        for program in running:
            program.process.kill()
        for program in self.programs:
            program.end()
        left = left_behind(TRACER_ENDS if running else 0.0, self.kept)
        shutil.rmtree(self.folder)
        self.assertEqual(left, {}, "processes were left behind")
        for program in self.programs:
            self.assertEqual([line for line in program.errors() if is_crash(line)], [], program.errors())

    # ---- runs

    def configure(self, shards=1, text=""):
        """Writes the configuration: 2 nodes with 2 workers and a network of one layer, without an end in sight."""
        self.shards = shards
        self.endpoints = [f"ipc://{self.folder}/{k}" for k in range(shards)]
        self.config.write_text(f"""\
run: {{seed: 3, out: {self.run_dir}}}
cluster:
  nodes: 2
  threads_per_node: 2
  shards: {shards}
  endpoints: [{", ".join(f'"{e}"' for e in self.endpoints)}]
  lease: 60s
  heartbeat: 200ms
  start_timeout: {START_TIMEOUT}
train:
  model: layers
  layers: [{{kind: flatten}}, {{kind: dense, out: 10}}]
  batch_size: 8
  total_iterations: 100000000
data: {{kind: synthetic, path: {self.data}}}
""" + text, encoding="utf-8")

    def start(self, *command, **options):
        program = Program(*command, **options)
        self.programs.append(program)
        return program

    def seeing(self, file, at):
        """The beginning of a command whose program sees that file or folder there: it has a mount namespace of its own. The
        test is skipped where that is not permitted."""
        begin = ("unshare", "--map-root-user", "--mount", "sh", "-c", f'mount --bind "$0" {at} && exec "$@"', file)
        tried = subprocess.run([*begin, "true"], capture_output=True, text=True, check=False)
        if tried.returncode != 0:
            self.skipTest("no mount namespaces for us here: " + tried.stderr.strip())
        return begin

    def server(self, shard, *arguments):
        return self.start(BIN / "paceline-server", self.config, "--shard", shard, *arguments)

    def node(self, number, *arguments):
        return self.start(BIN / "paceline-worker", self.config, "--node", number, *arguments)

    def start_run(self, *overrides):
        """All daemons of the run, one after another: servers, then nodes."""
        servers = [self.server(k, *overrides) for k in range(self.shards)]
        nodes = [self.node(i, *overrides) for i in range(nodes_of(overrides))]
        return servers, nodes

    def start_training(self, *overrides):
        """As start_run(), and waits until the training has begun."""
        servers, nodes = self.start_run(*overrides)
        servers[0].wait_for_line(PROGRESS.pattern)
        return servers, nodes

    def wait_for_log(self, name, text, times=1):
        """Until the file of that name in the run directory has `text` so often: the directory is watched, not polled."""
        with FolderWatch(self.run_dir) as watch:
            while self.in_log(name, text) < times:
                watch.wait(f"'{text}' in {self.run_dir / name}")

    def in_log(self, name, text):
        path = self.run_dir / name
        return path.read_text(encoding="utf-8").count(text) if path.exists() else 0

    def wait_for_written(self, count):
        """Until the run's log says so many times that a checkpoint is written."""
        self.wait_for_log("server.log", " is written: ", count)

    def wait_for_no_children(self, but):
        """Everything that a program started has ended, or is killed here and reported."""
        for pid in children():
            if pid != but.pid:
                self.assertTrue(wait_for_exit(pid, DEADLINE), f"still there: {command_of(pid)}")
                os.waitpid(pid, 0)

    def http_address(self):
        """Where the authority shows its run (run.http), as its log says it: "127.0.0.1:8080"."""
        self.wait_for_log("server.log", "the run is shown at http://")
        text = (self.run_dir / "server.log").read_text(encoding="utf-8")
        return re.search(r"the run is shown at http://([^/\s]+)/$", text, re.M).group(1)

    # ---- what must be so

    def paceline(self, *arguments):
        return subprocess.run([str(a) for a in (BIN / "paceline", *arguments)], capture_output=True, text=True,
                              timeout=DEADLINE, check=False)

    def summary(self):
        return json.loads((self.run_dir / "summary.json").read_text(encoding="utf-8"))

    def assert_ends(self, program, status, *patterns):
        """The program ends with that status, having said exactly these lines (regular expressions)."""
        got = program.end()
        printed = program.errors()
        self.assertEqual(len(printed), len(patterns), f"{program.name} said {printed}")
        for line, pattern in zip(printed, patterns):
            self.assertRegex(line, f"^{pattern}$")
        self.assertEqual(got, status, f"{program.name} said {printed}")

    def assert_end_quietly(self, programs):
        """All end with status 0, having said nothing."""
        for program in programs:
            self.assert_ends(program, 0)

    def assert_succeed(self, programs):
        """All end with status 0, whatever they have said."""
        for program in programs:
            self.assertEqual(program.end(), 0, program.errors())

    def assert_all_done(self, servers, nodes, run_dir=None, may_speak=()):
        """All have ended, the authority the first of the servers, and the run went to its end; returns its summary.
        None has said anything, but those that may. That emulated steps were late is not held against it: a machine may
        be busy, and who asks this asks nothing of times."""
        ends = [program.end() for program in servers + nodes]
        printed = [program.errors() for program in servers + nodes]
        summary = json.loads(((run_dir or self.run_dir) / "summary.json").read_text(encoding="utf-8"))
        too_late = "emulated steps took longer than emulate.base_step allows"
        late = too_late in summary.get("reason", "")
        for program, lines in zip(servers + nodes, printed):
            if program not in may_speak:
                self.assertEqual([line for line in lines if too_late not in line], [], program.name)
        self.assertEqual(summary["status"], "invalid" if late else "ok", printed)
        self.assertEqual(ends, [int(late)] + [0] * (len(servers) - 1) + [int(late)] * len(nodes), printed)
        return summary


class ScriptTest(DaemonTest):
    """scripts/: what a user starts."""

    def script(self, name, *arguments):
        """A script on the run's configuration."""
        return self.start("bash", SOURCE / "scripts" / name, *arguments)

    def run_local(self, *arguments):
        return self.script("run_local.sh", self.config, "--out", self.run_dir, "--bin", BIN, *arguments)

    @staticmethod
    def node_1_of(script):
        workers = daemons_of(script.pid, "paceline-worker")
        return next(pid for pid in workers if "--node 1" in command_of(pid))

    def stand_in(self, path, text):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("#!/bin/sh\n" + text, encoding="utf-8")
        path.chmod(0o755)


class FolderWatch:
    """Waits for changes of the files in a folder (inotify)."""

    IN_MODIFY, IN_CREATE = 0x2, 0x100

    def __init__(self, folder):
        folder.mkdir(exist_ok=True)
        libc = ctypes.CDLL(None, use_errno=True)
        self._fd = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if libc.inotify_add_watch(self._fd, str(folder).encode(), self.IN_MODIFY | self.IN_CREATE) < 0:
            raise OSError(ctypes.get_errno(), f"cannot watch {folder}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def wait(self, what):
        if not select.select([self], [], [], DEADLINE)[0]:
            raise AssertionError(f"nothing has changed within {DEADLINE} s of waiting for {what}")
        self.clear()

    def fileno(self):
        """Readable when something has changed since clear()."""
        return self._fd

    def clear(self):
        os.read(self._fd, 65536)

    def close(self):
        os.close(self._fd)


class _Result(unittest.TextTestResult):
    passed = 0

    def addSuccess(self, test):
        super().addSuccess(test)
        self.passed += 1


class _Runner(unittest.TextTestRunner):
    resultclass = _Result


def main():
    """Runs the tests of the file that calls it. Exit status 77, which ctest takes for skipped, where each of them was skipped."""
    global BIN, SOURCE
    BIN, SOURCE = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
    result = unittest.main(argv=[sys.argv[0], *sys.argv[3:]], exit=False, testRunner=_Runner).result
    for test, reason in result.skipped:
        print(f"skipped: {test.id()}: {reason}", file=sys.stderr)
    if result.wasSuccessful() and result.skipped and result.passed == 0:
        sys.exit(77)
    sys.exit(not result.wasSuccessful())
