"""Starts a run on this machine: its servers, and a training program for each node.

    python -m paceline.launch [--existing replace] [--programs FOLDER] my.yaml [key.path=value …] train.py [argument…]

Each program gets RANK, LOCAL_RANK, WORLD_SIZE and LOCAL_WORLD_SIZE, as from torchrun, so attach() of paceline.torch and
paceline.jax needs no node=; and OMP_NUM_THREADS, its share of the cores, where that is not set. It reads the same my.yaml, with
the same values in place of the file's. On several machines torchrun starts the programs, and paceline-server is started beside
them.

Ctrl-C, or SIGTERM: the servers end the run in order and keep the model; programs see that it is over (RunOver), and are
interrupted where they have not ended half a minute after the servers. Twice: all are ended at once. A program that fails
before training has begun, or gone on, ends the run; later the others go on. A server that refuses to begin ends all. Where no
program is left the servers end, too. Exit status: 0 the run succeeded, and so did all programs; 1 not, or it was stopped; 2 wrong
usage or configuration. Where a run is to be gone on with: 3 there is no checkpoint that is whole, 4 the run has ended well
already, 5 it has another configuration.
"""

import argparse
import collections
import json
import os
import pathlib
import re
import shlex
import signal
import subprocess
import sys
from typing import Counter, Dict, List, Optional

from paceline._programs import EXISTING, programs_in, start
from paceline.worker import most


_VALUE = re.compile(r"[a-z0-9_.]+=")
_GRACE = 30  # seconds in which a program ends after a run that is stopped
_REFUSALS = (2, 3, 4, 5)  # a server's statuses that say that it has not begun
_UNITS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_BEGINS = re.compile(r"^.*\b(?:training begins|training goes on)\b.*$", re.MULTILINE)


def _arguments(given: List[str]) -> argparse.Namespace:
    """The program's own arguments begin after its name, whatever they look like."""
    begin, named = 0, False  # the configuration
    while begin < len(given):
        word = given[begin]
        if word in ("--existing", "--programs"):
            begin += 1  # and its value
        elif not word.startswith("-"):
            if named and not (_VALUE.match(word) and not os.path.exists(word)):
                break
            named = True
        begin += 1
    parser = argparse.ArgumentParser(prog="paceline.launch", description=__doc__, allow_abbrev=False,
                                     usage="%(prog)s [--existing HOW] [--programs FOLDER] config [key.path=value …] program [argument…]",
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("config", help="the run's YAML")
    parser.add_argument("overrides", metavar="key.path=value", nargs="*", help="in place of the file's, for servers and programs")
    parser.add_argument("--existing", choices=list(EXISTING), default="refuse",
                        help="what becomes of an earlier run's files, the servers' and the nodes'")
    parser.add_argument("--programs", metavar="FOLDER", help="where paceline and paceline-server are")
    arguments = parser.parse_intermixed_args(given[:begin])
    arguments.program, *arguments.arguments = given[begin:] or [""]
    return arguments


class _Refused(Exception):
    """What is said before anything is started."""


def _value(programs, arguments, key):
    done = subprocess.run([programs / "paceline", "check-config", arguments.config, *arguments.overrides, "--get", key],
                          capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise _Refused(done.stderr.strip() or f"paceline check-config: ended with status {done.returncode}")
    return done.stdout.strip()


def _written(file):
    """Which writing of the file that is; None: it is not there."""
    try:
        status = os.stat(file)
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns


def _seconds(duration):
    """As "250ms"."""
    number, unit = re.fullmatch(r"([\d.]+)([a-z]+)", duration).groups()
    return float(number) * _UNITS[unit]


def _summary(out):
    """What the run there has ended with; empty: none has."""
    try:
        return dict(json.loads((pathlib.Path(out) / "summary.json").read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return {}


def _lost(summary):
    """Which nodes, and why, how often."""
    return collections.Counter(map(str, summary.get("lost", [])))


def _has_learned_before(out):
    """Whether the model there may have what a warm start had learned before the first version."""
    folder = pathlib.Path(out)
    if not (folder / "model.bin").exists():
        return False
    try:
        return re.search(r"\bwarm_start_steps: *[1-9]", (folder / "config.yaml").read_text(encoding="utf-8")) is not None
    except (OSError, ValueError):
        return True


def _existing(given, out):
    """A run that has trained nothing is replaced, as its server does; so is what its programs left."""
    summary = _summary(out)
    trained_nothing = (summary.get("status") not in (None, "ok") and (summary.get("final_version"), summary.get("iterations")) == (0, 0)
                       and not os.path.exists(os.path.join(out, "checkpoint")) and not _has_learned_before(out))
    return "replace" if given == "refuse" and trained_nothing else given


def _how(status):
    """A process's end: as "status 3" or "SIGKILL"."""
    return f"status {status}" if status >= 0 else signal.Signals(-status).name


class _Run:
    """Its processes, by their names, until all have ended. `heartbeat`: in seconds, cluster.heartbeat. `ended_programs`: where shard 0's
    server hears of programs that have ended (--ended-programs)."""

    def __init__(self, out, heartbeat, ended_programs):
        self._out = pathlib.Path(out)
        self._ended_programs = ended_programs
        # A server finds over tcp that a program was killed within two heartbeats and 1.5 s. A signal before would make a run that
        # has failed one that was stopped.
        self._notices_within = 2 * (2 * heartbeat + 1.5)
        self._summary_before = _written(self._out / "summary.json")
        self._began_before = self._last_begin()
        self._running: Dict[str, subprocess.Popen] = {}
        self._signals = 0
        self._signalled = set()  # servers: a second signal would end them at once, whatever they write
        self._dismissed = False  # programs: there is no run for them
        self._nobody_is_left_printed = False
        self.failed: List[str] = []
        self.refused = 0  # a server's status: there is no run
        self.advice = ""  # where that is 2
        self.lost_before: Counter[str] = collections.Counter()  # of a run that goes on: in its record, too
        self.sees_begin = True  # in the server's log (run.log_level)

    def start(self, name, command, options=None, **environment):
        if self._signals > 0:
            self.failed.append(name)
            return
        self._running[name] = start(command, env={**os.environ, **environment}, **(options or {}))
        if self._signals > 0:  # meanwhile
            self._end(name)

    def stop(self, *_):
        """A signal: once in order, then at once. In order the servers are told, which end the run at a whole step of all; they
        bound that time themselves, and may have much to write."""
        self._signals += 1
        servers = self._left("server")
        for name in list(self._running) if self._signals > 1 or not servers else servers:
            self._end(name)

    def interrupt(self, *_):
        """Who has not ended by itself."""
        if self._signals == 0:
            self._print_nobody_is_left()
        for name in list(self._running):
            self._end(name)

    def _left(self, what):
        return [name for name in self._running if name.startswith(what)]

    def _end(self, name):
        # Where there is no run a program is ended without a word: what the server has said is not to scroll away.
        order = signal.SIGTERM if self._dismissed or name.startswith("server") else signal.SIGINT
        process = self._running[name]
        if name.startswith("server") and self._signals <= 1:
            if name in self._signalled:
                return
            self._signalled.add(name)
        try:
            if process.returncode is None:
                if self._signals <= 1:
                    os.kill(process.pid, order)  # not send_signal(), which would take the status before wait() sees it
                else:
                    os.killpg(process.pid, signal.SIGKILL)  # also what it has started: each leads a group
        except ProcessLookupError:  # it has just ended
            pass

    def wait(self):
        """Until all have ended."""
        while self._running:
            pid = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT).si_pid
            name = next((each for each, process in self._running.items() if process.pid == pid), None)
            if name is None:  # process 1 of a container is given the children of others
                os.waitpid(pid, 0)
                continue
            status = self._running[name].wait()
            del self._running[name]
            if name.startswith("server"):
                self._server_ended(name, status)
            else:
                self._program_ended(name, status)

    def _server_ended(self, name, status):
        if status != 0:
            self.failed.append(name)
        ended_as_asked = status in (1, -signal.SIGTERM) and (self._signals == 1 or self._dismissed)
        if not ended_as_asked:
            self._print_failed(name, status)
        if status in _REFUSALS and not self.refused:
            self.refused = status
            if self.advice and status == 2:
                self._print(self.advice)
            self._dismiss()
        elif not self._left("server") and self._running and not self.refused:
            if self.sees_begin and not self._has_begun():
                self._dismiss()
            elif self._signals == 1:
                signal.setitimer(signal.ITIMER_REAL, _GRACE)

    def _program_ended(self, name, status):
        if status != 0:
            self.failed.append(name)
        if not (self._dismissed and status == -signal.SIGTERM):
            self._print_failed(name, status)
        if not self._left("server") or self._signals > 0 or self._dismissed:
            return
        if status == 0 and not self._is_over():
            self._print(f"{name} has ended before the run")
        self._report_ended(name, status)
        if not self._left("node"):
            if not self._has_begun():
                self._print_nobody_is_left()
            # They find that out, and have files to write.
            signal.setitimer(signal.ITIMER_REAL, self._notices_within)

    def _report_ended(self, name, status):
        """Where training has not begun the server waits for those that have not joined."""
        try:
            os.write(self._ended_programs, f"{name.split()[1]} {_how(status)}\n".encode())
        except OSError:  # it has just ended, or reads nothing
            pass

    def _dismiss(self):
        self._dismissed = True
        for name in list(self._running):
            self._end(name)

    def _has_begun(self):
        """Whether training has, or has gone on, as far as the server's log says so; it may be of an earlier run."""
        last = self._last_begin()
        return last is not None and last != self._began_before

    def _last_begin(self):
        """What the server's log says last of a training that begins; None: nothing."""
        try:
            lines = _BEGINS.findall((self._out / "server.log").read_text(encoding="utf-8", errors="replace"))
        except OSError:
            return None
        return lines[-1] if lines else None

    def _is_over(self):
        """Whether its results are there, which come before the nodes hear of the end."""
        return _written(self._out / "summary.json") not in (None, self._summary_before)

    def print_where(self):
        """Who was lost, and where the run's report is; of one that never was there is none."""
        if self._is_over():
            for lost in (_lost(_summary(self._out)) - self.lost_before).elements():
                self._print(f"lost before the end: {lost}")
            self._print(f"the run in {self._out} is over; paceline report {shlex.quote(str(self._out))} says how it went")

    def _print_nobody_is_left(self):
        if not self._nobody_is_left_printed:
            self._print("no program is left, and the servers end")
        self._nobody_is_left_printed = True

    def _print_failed(self, name, status):
        if status != 0:
            self._print(f"{name} has ended with {_how(status)}")

    @staticmethod
    def _print(text):
        sys.stderr.write(f"paceline.launch: {text}\n")  # print() writes text and end apart, and others write between
        sys.stderr.flush()


def main(given: Optional[List[str]] = None) -> int:
    """As the module says; returns the exit status."""
    arguments = _arguments(sys.argv[1:] if given is None else given)
    try:
        programs = programs_in(arguments.programs)
        nodes = most(_value(programs, arguments, "cluster.nodes"))
        shards = int(_value(programs, arguments, "cluster.shards"))
        out = _value(programs, arguments, "run.out")
        heartbeat = _seconds(_value(programs, arguments, "cluster.heartbeat"))
        level = _value(programs, arguments, "run.log_level")
        threads = _value(programs, arguments, "cluster.threads_per_node")
        if threads != "1":
            raise _Refused(f"cluster.threads_per_node: a training loop is one worker, got {threads}, expected 1")
        if _value(programs, arguments, "cluster.replicas") != "1":
            raise _Refused("cluster.replicas: two servers of each shard are for two machines, expected 1")
        if not arguments.program:
            raise _Refused("program: got none after key.path=value, expected one")
        if not os.path.exists(arguments.program):
            raise _Refused(f"{arguments.program}: no such program")
    except (ValueError, _Refused) as error:
        print(f"paceline.launch: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:  # nothing was started
        return 1
    read_end, ended_programs = os.pipe()
    os.set_blocking(ended_programs, False)
    run = _Run(out, heartbeat, ended_programs)
    run.sees_begin = level in ("debug", "info")
    # What the server advises is for its own command line.
    existing = _existing(arguments.existing, out)
    if existing == "continue":
        run.lost_before = _lost(_summary(out))
    if existing == "replace" and _summary(out).get("status") == "ok":
        run.advice = f"a run that has ended well is not replaced: remove {shlex.quote(out)}, or say run.out=FOLDER"
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, run.stop)
    signal.signal(signal.SIGALRM, run.interrupt)
    for shard in range(shards):
        run.start(f"server {shard}", [programs / "paceline-server", arguments.config, *arguments.overrides, "--shard",
                                      str(shard), *EXISTING[existing],
                                      *(["--ended-programs", str(read_end)] if shard == 0 else [])],
                  {"pass_fds": (read_end,)} if shard == 0 else None)
    os.close(read_end)
    launched = {"config": os.path.realpath(arguments.config), "overrides": arguments.overrides, "existing": existing}
    threads = os.environ.get("OMP_NUM_THREADS") or str(max(1, len(os.sched_getaffinity(0)) // nodes))  # else all cores each
    for node in range(nodes):
        run.start(f"node {node}", [sys.executable, arguments.program, *arguments.arguments], RANK=str(node), LOCAL_RANK=str(node),
                  WORLD_SIZE=str(nodes), LOCAL_WORLD_SIZE=str(nodes), OMP_NUM_THREADS=threads,
                  PACELINE_LAUNCHED=json.dumps(launched))
    run.wait()
    signal.setitimer(signal.ITIMER_REAL, 0)
    run.print_where()
    return run.refused or (1 if run.failed else 0)


if __name__ == "__main__":
    sys.exit(main())
