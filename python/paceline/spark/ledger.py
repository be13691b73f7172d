"""Which task attempt trains with which share: a newer one fences the older.

Spark may begin a share again while the process of its last attempt still trains: a cancelled one goes on for seconds, one
whose executor was lost may never hear of it. Attempt numbers begin at 0 again with a stage, so the incarnation is
taskAttemptId(), which only grows. Each attempt says it here, at the driver, and keeps its connection for as long as it lives:

    attempt -> ledger   {"share": 1, "attempt": 7}, with the HMAC of it and the ledger's nonce
    ledger -> older     "fenced": its process ends
    ledger -> attempt   "enter" once the older's connection has ended, or a lease later
                        "over": the run has ended well, there is nothing to do
                        "fenced": a newer attempt was here

No goodbye is needed: tasks end by kill. The secret comes to the tasks by a broadcast, never by a command line.
"""

import hashlib
import hmac
import json
import os
import secrets
import socket
import socketserver
import threading
from typing import Dict, List, Tuple

# An older attempt whose host is cut off does not hold a newer one up for longer.
FENCE_S = 15.0
# Who has connected says who it is, and is answered. Both processes may have little of a busy machine.
_ANSWER_S = 300.0
_LINE_MAX = 1024


def _mac(secret: bytes, nonce: str, text: str) -> str:
    return hmac.new(secret, f"{nonce} {text}".encode(), hashlib.sha256).hexdigest()


class _Entry:
    def __init__(self, attempt, connection):
        self.attempt, self.connection = attempt, connection
        self.ended = threading.Event()


class Ledger:
    """At the driver, on `host`. Threads: of its own; all functions may be called from any."""

    def __init__(self, host: str, secret: bytes):
        self.secret = secret
        self.over = False
        self.attempts: Dict[int, List[int]] = {}  # of each share, in the order in which they came
        self._now: Dict[int, _Entry] = {}
        self._lock = threading.Lock()
        ledger = self

        class Handler(socketserver.StreamRequestHandler):
            timeout = _ANSWER_S

            def handle(self):
                ledger._attend(self)

        class Listener(socketserver.ThreadingTCPServer):
            daemon_threads = True
            allow_reuse_address = True
            address_family = socket.AF_INET6 if ":" in host else socket.AF_INET

            def handle_error(self, request, client_address):
                pass  # a connection that breaks, or a stranger

        self._listener = Listener((host, 0), Handler)
        self.port = self._listener.server_address[1]
        threading.Thread(target=self._listener.serve_forever, daemon=True, name="paceline-ledger").start()

    def present(self) -> List[int]:
        """The shares that have an attempt that is there."""
        with self._lock:
            return sorted(share for share, entry in self._now.items() if not entry.ended.is_set())

    def close(self) -> None:
        self._listener.shutdown()
        self._listener.server_close()

    def _attend(self, handler) -> None:
        nonce = secrets.token_hex(16)
        handler.wfile.write(f"{nonce}\n".encode())
        text, _, mac = handler.rfile.readline(_LINE_MAX).decode().strip().rpartition(" ")
        if not hmac.compare_digest(mac, _mac(self.secret, nonce, text)):
            return
        message = json.loads(text)
        share, entry = message["share"], _Entry(message["attempt"], handler.connection)
        with self._lock:
            older = self._now.get(share)
            stale = older is not None and older.attempt > entry.attempt
            if not self.over and not stale:
                self._now[share] = entry
                self.attempts.setdefault(share, []).append(entry.attempt)
        if self.over or stale:
            handler.wfile.write(b"over\n" if self.over else b"fenced\n")
            return
        try:
            if older is not None and not older.ended.is_set():
                try:
                    older.connection.sendall(b"fenced\n")
                except OSError:
                    pass  # it is gone
                older.ended.wait(FENCE_S)
            handler.wfile.write(b"enter\n")
            handler.connection.settimeout(None)
            handler.rfile.readline(_LINE_MAX)  # returns as the process ends
        finally:
            entry.ended.set()


class Attempt:
    """In a task: says that it is here, and ends its process where a newer one comes. `word`: "enter", "over" or "fenced"."""

    def __init__(self, address: Tuple[str, int], secret: bytes, share: int, attempt: int):
        self._socket = socket.create_connection(address, timeout=FENCE_S + _ANSWER_S)
        self._lines = self._socket.makefile("r")
        nonce = self._lines.readline().strip()
        text = json.dumps({"share": share, "attempt": attempt})
        self._socket.sendall(f"{text} {_mac(secret, nonce, text)}\n".encode())
        self.word = self._lines.readline().strip()
        self._closed = False
        if self.word == "enter":
            self._socket.settimeout(None)
            threading.Thread(target=self._listen, daemon=True, name="paceline-attempt").start()

    def _listen(self) -> None:
        try:
            word = self._lines.readline().strip()
        except (OSError, ValueError):
            return
        if word == "fenced" and not self._closed:
            os._exit(1)  # another process has its share; Spark has given this one up

    def close(self) -> None:
        self._closed = True
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self._socket.close()
