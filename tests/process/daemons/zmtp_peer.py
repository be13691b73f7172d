"""A peer that speaks ZeroMQ's wire protocol by hand, so that it can say what no daemon of ours would."""

import contextlib
import socket
import struct

import harness


class ZmtpPeer:
    """A DEALER by hand: ZMTP 3.0 with the NULL mechanism (rfc.zeromq.org/spec/23), over an ipc endpoint; with `accepted`, a
    socket that a DEALER has connected to, the ROUTER that answers it."""

    def __init__(self, endpoint, accepted=None):
        self._socket = accepted or socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(harness.DEADLINE)
        if accepted is None:
            self._socket.connect(endpoint.removeprefix("ipc://"))
        self._socket.sendall(b"\xff" + bytes(8) + b"\x7f\x03\x00" + b"NULL".ljust(20, b"\0") + bytes(32))
        self._receive(64)
        name, value = b"Socket-Type", b"ROUTER" if accepted else b"DEALER"
        ready = b"\x05READY" + bytes([len(name)]) + name + struct.pack(">I", len(value)) + value
        self._socket.sendall(bytes([4, len(ready)]) + ready)
        self.frame()

    def send(self, *frames):
        """One message."""
        self.send_bytes(self.encoded(*frames))

    @staticmethod
    def encoded(*frames):
        """A message as the bytes that travel."""
        return b"".join(bytes([2 | (i + 1 < len(frames))]) + struct.pack(">Q", len(frame)) + frame
                        for i, frame in enumerate(frames))

    def send_bytes(self, data):
        self._socket.sendall(data)

    def drop_input(self):
        """Reads what comes and forgets it, until the other side has ended the connection."""
        with contextlib.suppress(OSError):
            while self._socket.recv(1 << 16):
                pass

    def message(self):
        """The frames of the next message."""
        frames = []
        more = True
        while more:
            flags = self._receive(1)[0]
            size = struct.unpack(">Q", self._receive(8))[0] if flags & 2 else self._receive(1)[0]
            frames.append(self._receive(size))
            more = flags & 1
        return frames

    def frame(self):
        """The next frame or command that the other side sends."""
        return self.message()[0]

    def wait_until_cut_off(self):
        """Until the other side has ended the connection; fails (TimeoutError) where it does not."""
        try:
            while self._socket.recv(65536):
                pass  # what it had still to say
        except ConnectionError:
            pass  # reset, since it left something unread

    def close(self):
        self._socket.close()

    def _receive(self, size):
        data = b""
        while len(data) < size:
            part = self._socket.recv(size - len(data))
            if not part:
                raise AssertionError("the server has closed the connection")
            data += part
        return data
