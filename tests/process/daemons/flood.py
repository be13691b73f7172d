#!/usr/bin/env python3
"""Floods a server with messages of the right form, as fast as the socket takes them, until SIGTERM.

    flood.py ENDPOINT KIND reads|deaf [JOIN]

KIND     heartbeats, reports (the same again and again), pulls, exact (pulls of a version that is not kept) or joins
reads    what comes back is read; deaf: never
JOIN     the bytes of a Join, in hexadecimal: of whom the messages are. Without it they are a stranger's

Says "ready" when it has joined and begins at SIGUSR1; says "taken N" as the socket has taken N more, and at the end how many
in all. A connection that the server breaks is followed by another, as a stranger.
"""
import contextlib
import os
import pathlib
import signal
import socket
import sys
import threading

import harness
from zmtp_peer import ZmtpPeer

BLOCK = 200  # messages that are handed over at once
SAY_EVERY = 10_000


def report(node):
    """StepReport {worker {node}, metric {loss_sum: 1, correct: 2, samples: 4}} of clock 0."""
    body = bytes([0x0A, 2, 0x08, node]) + b"\x1a\x0d\x09" + bytes(6) + b"\xf0\x3f\x10\x02\x18\x04"
    return b"\x2a" + bytes([len(body)]) + body


def recorded_join(test, *overrides):
    """What a real node 1 of a DaemonTest's run says first; the server's address is a listener of ours meanwhile."""
    path = pathlib.Path(test.endpoints[0].removeprefix("ipc://"))
    with socket.socket(socket.AF_UNIX) as listener:
        listener.settimeout(harness.DEADLINE)
        listener.bind(str(path))
        listener.listen()
        node = test.node(1, *overrides, f"run.out={test.folder}/recorded")
        peer = ZmtpPeer("", accepted=listener.accept()[0])
        join = wait_for(peer, b"\x0a")[0]
        node.send(signal.SIGKILL)
        node.end()
        peer.close()
    path.unlink()
    return join


def messages(kind, join):
    node = node_of(join) if join else 1
    return {
        "heartbeats": b"\x8a\x01\x00",
        "reports": report(node),
        "pulls": b"\x32\x04\x08\x01\x20\x01",  # {request: 1, have: -1}
        "exact": b"\x32\x06\x08\x01\x18\x01\x20\x01",  # {request: 1, min_version: 0, exact, have: -1}
        "joins": join,
    }[kind]


def node_of(join):
    """Header {join {protocol_version, node}}, both less than 128."""
    at = 1 + (2 if join[1] & 0x80 else 1)
    assert join[0] == 0x0A and join[at] == 0x08 and join[at + 2] == 0x10, join[:10]
    return join[at + 3]


def join_as(join, node):
    """The same Join of another node."""
    at = 1 + (2 if join[1] & 0x80 else 1) + 3
    assert node_of(join) > 0 and 0 < node < 128
    return join[:at] + bytes([node]) + join[at + 1:]


def wait_for(peer, tag):
    """Reads until a message of that first byte has come."""
    while True:
        frames = peer.message()
        if frames[0][:1] == tag:
            return frames


class Flood:
    """What the connections of one flooder have taken so far."""

    def __init__(self, endpoint, kind, manner, join):
        self.endpoint = endpoint
        self.reads = manner == "reads"
        self.join = join
        self.block = ZmtpPeer.encoded(messages(kind, join)) * BLOCK
        self.sent = 0

    def run(self):
        """Without an end. SIGUSR1 is blocked in all threads."""
        joined = self.join is None
        while True:
            with contextlib.suppress(OSError, AssertionError):
                peer = ZmtpPeer(self.endpoint)
                if not joined:
                    peer.send(self.join)
                    wait_for(peer, b"\x12")  # Welcome
                    joined = True
                if self.sent == 0:
                    print("ready", file=sys.stderr, flush=True)
                    signal.sigwait({signal.SIGUSR1})
                if self.reads:
                    threading.Thread(target=peer.drop_input, daemon=True).start()
                while True:
                    peer.send_bytes(self.block)
                    self.sent += BLOCK
                    if self.sent % SAY_EVERY == 0:
                        print("taken", self.sent, file=sys.stderr, flush=True)


def main():
    endpoint, kind, manner = sys.argv[1:4]
    flood = Flood(endpoint, kind, manner, bytes.fromhex(sys.argv[4]) if len(sys.argv) > 4 else None)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1, signal.SIGTERM})
    threading.Thread(target=flood.run, daemon=True).start()
    # Waited for, not handled: a handler of Python's runs when the socket has room, which it may never have again where the
    # signal comes just before send() does.
    signal.sigwait({signal.SIGTERM})
    print(f"{flood.sent} messages", flush=True)
    os._exit(0)  # the thread may hold the error output, which an ordinary end waits for


if __name__ == "__main__":
    main()
