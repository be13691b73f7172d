"""Starts a run on this machine: its servers, and a training program for each node.

    python -m paceline.launch [--existing replace] [--programs FOLDER] my.yaml [key.path=value …] train.py [argument…]

Each program gets RANK, LOCAL_RANK, WORLD_SIZE and LOCAL_WORLD_SIZE, as from torchrun, so attach() of paceline.torch and
paceline.jax needs no node=. It reads the same my.yaml, with the same values in place of the file's. On several machines
torchrun starts the programs, and paceline-server is started beside them.

Ctrl-C, or SIGTERM: the servers end the run in order and keep the model; programs see that it is over (RunOver), and are
interrupted where they have not ended half a minute later. Twice: all are ended at once. A program that fails does not end
the others; a server that refuses to begin does. Where no program is left the servers end, too. Exit status: 0 the run succeeded,
and so did all programs; 1 not; 2 wrong usage or configuration. Where a run is to be gone on with: 3 there is no checkpoint that
is whole, 4 the run has ended well already, 5 it has another configuration.
"""

import argparse
import json
import os
import pathlib
import re
import shlex
import signal
import subprocess
import sys
from typing import Dict, List, Optional

from paceline._programs import EXISTING, programs_in, start
from paceline.worker import most


_VALUE = re.compile(r"[a-z0-9_.]+=")
_GRACE = 30  # seconds in which a program ends behind a run that is stopped
_REFUSALS = (2, 3, 4, 5)  # a server's statuses that say that it has not begun
_UNITS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_BEGINS = re.compile(r"^.*\b(?:training begins|training goes on)\b.*$", re.MULTILINE)


def _arguments(given: List[str]) -> argparse.Namespace:
    """The program's own arguments begin behind its name, whatever they look like."""
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


def _status(summary):
    """How the run there has ended; None: none has."""
    try:
        return json.loads(pathlib.Path(summary).read_text(encoding="utf-8"))["status"]
    except (OSError, ValueError, KeyError):
        return None


class _Run:
    """Its processes, by their names, until all have ended. `heartbeat`: in seconds, cluster.heartbeat."""

    def __init__(self, out, heartbeat):
        self._out = pathlib.Path(out)
        # A server finds over tcp that a program was killed within two heartbeats and 1.5 s. A signal before would make a run that
        # has failed one that was stopped.
        self._notices_within = 2 * (2 * heartbeat + 1.5)
        self._began_before = self._last_begin()
        self._running: Dict[str, subprocess.Popen] = {}
        self._signals = 0
        self._told = set()  # servers: a second signal would end them at once, whatever they write
        self.failed: List[str] = []
        self.refused = 0  # a server's status: there is no run
        self.advice = ""  # where that is 2

    def start(self, name, command, **environment):
        if self._signals > 0:
            return
        self._running[name] = start(command, env={**os.environ, **environment})
        if self._signals > 0:  # meanwhile
            self._end(name)

    def stop(self, *_):
        """A signal: once in order, then at once. In order the servers are told, which end the run at a whole step of all."""
        self._signals += 1
        servers = [name for name in self._running if name.startswith("server")]
        for name in list(self._running) if self.refused or self._signals > 1 or not servers else servers:
            self._end(name)
        if self._signals == 1 and not self.refused:
            signal.setitimer(signal.ITIMER_REAL, _GRACE)

    def interrupt(self, *_):
        """Who has not ended by itself."""
        if self._signals == 0:
            self._say("no program is left, and the servers end")
        for name in list(self._running):
            self._end(name)

    def _end(self, name):
        # Where there is no run a program is ended without a word: what the server has said is not to scroll away.
        order = signal.SIGTERM if self.refused or name.startswith("server") else signal.SIGINT
        process = self._running[name]
        if name.startswith("server") and self._signals <= 1:
            if name in self._told:
                return
            self._told.add(name)
        try:
            if process.returncode is None:
                if self._signals <= 1:
                    os.kill(process.pid, order)  # not send_signal(), which would take the status before wait() sees it
                else:
                    os.killpg(process.pid, signal.SIGKILL)  # also what it has started: each leads a group
        except ProcessLookupError:  # it has just ended
            pass

    def wait(self):
        """Until all have ended. Each that fails is named then."""
        while self._running:
            pid = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT).si_pid
            name = next((each for each, process in self._running.items() if process.pid == pid), None)
            if name is None:  # process 1 of a container is given the children of others
                os.waitpid(pid, 0)
                continue
            status = self._running[name].wait()
            del self._running[name]
            if status != 0:
                self.failed.append(name)
                how = f"status {status}" if status > 0 else signal.Signals(-status).name
                if not (self.refused and status == -signal.SIGTERM):
                    self._say(f"{name} has ended with {how}")
                if name.startswith("server") and status in _REFUSALS and not self.refused:
                    self.refused = status
                    if self.advice and status == 2:
                        self._say(self.advice)
                    self.stop()
            nodes = any(each.startswith("node") for each in self._running)
            if name.startswith("node") and not nodes and self._running and self._signals == 0:
                if self._may_have_begun():  # then the servers find out that the nodes are gone, and have files to write
                    signal.setitimer(signal.ITIMER_REAL, self._notices_within)
                else:
                    self.interrupt()

    def _may_have_begun(self):
        # A log of a node may be of one that had joined, or of an earlier run; programs may also have a run.out of their own.
        return any(self._out.glob("worker-*.log")) or self._last_begin() != self._began_before

    def _last_begin(self):
        """What the server's log says last of a training that begins; None: nothing."""
        try:
            lines = _BEGINS.findall((self._out / "server.log").read_text(encoding="utf-8", errors="replace"))
        except OSError:
            return None
        return lines[-1] if lines else None

    @staticmethod
    def _say(text):
        print(f"paceline.launch: {text}", file=sys.stderr, flush=True)


def main(given: Optional[List[str]] = None) -> int:
    """As the module says; returns the exit status."""
    arguments = _arguments(sys.argv[1:] if given is None else given)
    try:
        programs = programs_in(arguments.programs)
        nodes = most(_value(programs, arguments, "cluster.nodes"))
        shards = int(_value(programs, arguments, "cluster.shards"))
        out = _value(programs, arguments, "run.out")
        heartbeat = _seconds(_value(programs, arguments, "cluster.heartbeat"))
        if _value(programs, arguments, "cluster.replicas") != "1":
            raise _Refused("cluster.replicas: two servers of each shard are for two machines, expected 1")
        if not arguments.program:
            raise _Refused("program: got none behind key.path=value, expected one")
        if not os.path.exists(arguments.program):
            raise _Refused(f"{arguments.program}: no such program")
    except (ValueError, _Refused) as error:
        print(f"paceline.launch: {error}", file=sys.stderr)
        return 2
    summary = os.path.join(out, "summary.json")
    before = _written(summary)
    run = _Run(out, heartbeat)
    # What the server advises is for its own command line.
    if arguments.existing == "refuse" and os.path.exists(os.path.join(out, "server.log")):
        run.advice = "for this: run.out=FOLDER, --existing replace, or --existing continue"
    elif arguments.existing == "replace" and _status(summary) == "ok":
        run.advice = f"a run that has ended well is not replaced: remove {shlex.quote(out)}, or say run.out=FOLDER"
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, run.stop)
    signal.signal(signal.SIGALRM, run.interrupt)
    for shard in range(shards):
        run.start(f"server {shard}", [programs / "paceline-server", arguments.config, *arguments.overrides, "--shard",
                                      str(shard), *EXISTING[arguments.existing]])
    launched = {"config": os.path.realpath(arguments.config), "overrides": arguments.overrides, "existing": arguments.existing}
    for node in range(nodes):
        run.start(f"node {node}", [sys.executable, arguments.program, *arguments.arguments], RANK=str(node), LOCAL_RANK=str(node),
                  WORLD_SIZE=str(nodes), LOCAL_WORLD_SIZE=str(nodes), PACELINE_LAUNCHED=json.dumps(launched))
    run.wait()
    signal.setitimer(signal.ITIMER_REAL, 0)
    if _written(summary) not in (None, before):  # by this run: one that never began leaves none
        print(f"paceline.launch: the run in {out} is over; paceline report {shlex.quote(out)} says how it went", file=sys.stderr, flush=True)
    return run.refused or (1 if run.failed else 0)


if __name__ == "__main__":
    sys.exit(main())
