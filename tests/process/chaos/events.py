"""What a supervisor waits for: ends of processes, new lines of a log, times that have come. One thread, no polling."""
import heapq
import itertools
import os
import select
import time

import harness  # on the path of chaos.py


class Events:
    """Calls whoever asked, one event after another."""

    def __init__(self, log):
        self._log = log
        self._read_to = 0
        self._watch = harness.FolderWatch(log.parent)
        self._ends = {}  # pidfd: what to call
        self._timers = []
        self._order = itertools.count()

    def close(self):
        self._watch.close()
        for fd in self._ends:
            os.close(fd)

    def on_end(self, program, call):
        """Once the program has ended."""
        self._ends[os.pidfd_open(program.pid)] = call

    def after(self, seconds, call):
        heapq.heappush(self._timers, (time.monotonic() + seconds, next(self._order), call))

    def wait(self, seconds_max, on_line):
        """For what comes next, and handles it. False: nothing came."""
        due = min([time.monotonic() + seconds_max, *(at for at, _, _ in self._timers[:1])])
        poll = select.poll()
        poll.register(self._watch.fileno(), select.POLLIN)
        for fd in self._ends:
            poll.register(fd, select.POLLIN)
        ready = [fd for fd, _ in poll.poll(max(0.0, due - time.monotonic()) * 1000)]
        came = bool(ready)
        for fd in ready:
            if fd in self._ends:
                call = self._ends.pop(fd)
                os.close(fd)
                call()
            else:
                self._watch.clear()
        for line in self._new_lines():
            on_line(line)
        while self._timers and self._timers[0][0] <= time.monotonic():
            heapq.heappop(self._timers)[2]()
            came = True
        return came

    def _new_lines(self):
        """The whole lines that the log has gained."""
        if not self._log.exists():
            return []
        with self._log.open("rb") as file:
            file.seek(self._read_to)
            text = file.read()
        whole = text[:text.rfind(b"\n") + 1]
        self._read_to += len(whole)
        return whole.decode(errors="replace").splitlines()
