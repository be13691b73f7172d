"""hang_timeout: ends a process whose loop takes too long from one exchange to the next. Who else is in the run sees only that its
node lives: its heartbeats go on, whatever the loop does."""

import faulthandler
import numbers
import os
import sys
import threading
import time
import weakref
from typing import Callable, Optional

# What C can count in nanoseconds, with room to spare: four months.
_SECONDS_MAX = 1e7
# How much later a process ends that lets no other thread of Python's run, and says only where it is.
_SILENT_S = 10.0

_watches: "weakref.WeakSet" = weakref.WeakSet()


class Watch:
    """From start() on the loop has `seconds`, None: as long as it likes, until stop(). After them leave(text) is called on a
    thread of this one's, which tells the run; the process says where its threads are, and ends. `leave` keeps nothing alive."""

    def __init__(self, seconds: Optional[float], leave: Callable[[str], None]):
        self._leave = leave
        self._forget()
        self.seconds = seconds
        _watches.add(self)

    def _forget(self):
        self._changed = threading.Condition()
        self._thread: Optional[threading.Thread] = None
        self._until: Optional[float] = None  # of time.monotonic()
        self._started_with = 0.0             # seconds, what `until` is from
        self._closed = False

    @property
    def seconds(self) -> Optional[float]:
        """As above; what is set counts from the next start() on."""
        return self._seconds

    @seconds.setter
    def seconds(self, seconds: Optional[float]) -> None:
        is_number = isinstance(seconds, numbers.Real) and not isinstance(seconds, bool)
        if seconds is not None and not (is_number and 0 < seconds <= _SECONDS_MAX):
            raise ValueError(f"hang_timeout: got {seconds!r}, expected seconds, above 0 and at most {_SECONDS_MAX:.0f}, or None")
        self._seconds = seconds
        with self._changed:
            self._changed.notify()

    @property
    def until(self) -> Optional[float]:
        """When it is over, of time.monotonic()."""
        return self._until

    def start(self) -> None:
        self.stop()
        if self._seconds is None:
            return
        with self._changed:
            self._started_with = self._seconds
            self._until = time.monotonic() + self._started_with
        _end_in(self._started_with + _SILENT_S)
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="paceline hang_timeout", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        if self._until is None:
            return
        faulthandler.cancel_dump_traceback_later()
        with self._changed:
            self._until = None

    def close(self) -> None:
        """After it nothing is called."""
        self.stop()
        with self._changed:
            self._closed = True
            self._changed.notify()

    # It looks no more often than the time lasts: a start() need not wake it.
    def _run(self):
        with self._changed:
            while not self._closed:
                now = time.monotonic()
                if self._until is not None and now >= self._until:
                    break
                self._changed.wait((self._seconds or _SECONDS_MAX) if self._until is None else self._until - now)
            if self._closed:
                return
            self._leave(f"no exchange for {self._started_with:g} s (hang_timeout)")
        faulthandler.dump_traceback(file=_standard_error())
        os._exit(1)


def _standard_error():
    try:
        return sys.__stderr__.fileno()
    except (AttributeError, OSError, ValueError):  # there is none, or it is closed
        return 2


def _end_in(seconds: float) -> None:
    faulthandler.dump_traceback_later(seconds, exit=True, file=_standard_error())


# A forked process would wait at its end for the timer's thread, which it does not have.
def _before_fork() -> None:
    if any(watch.until is not None for watch in list(_watches)):
        faulthandler.cancel_dump_traceback_later()


def _after_fork() -> None:
    for watch in list(_watches):
        until = watch.until
        if until is not None:
            _end_in(max(until - time.monotonic(), 0.001) + _SILENT_S)


def _forked() -> None:
    for watch in list(_watches):
        watch._forget()


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_forked)
