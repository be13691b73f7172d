#!/usr/bin/env bash
# ZeroMQ: a worker that comes back under its identity, while its old connection is open, is unheard for good and told nothing.
set -eu
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
python3 -m venv "$tmp/venv"
"$tmp/venv/bin/pip" install -q pyzmq==27.3.0
cat >"$tmp/check.py" <<'PY'
import sys

import zmq
from zmq.utils.monitor import recv_monitor_message

WAIT = 2000  # milliseconds
context = zmq.Context()


def scenario(handover):
    """(what the second worker said while the first was there, behind its end, from a third; who got the answer)"""
    server = context.socket(zmq.ROUTER)
    server.router_mandatory = 1
    server.router_handover = handover
    port = server.bind_to_random_port("tcp://127.0.0.1")

    def worker():
        socket = context.socket(zmq.DEALER)
        socket.linger = 0
        socket.identity = b"worker 3"
        monitor = socket.get_monitor_socket()
        socket.connect(f"tcp://127.0.0.1:{port}")
        events = []
        while zmq.EVENT_HANDSHAKE_SUCCEEDED not in events and monitor.poll(WAIT):
            events.append(recv_monitor_message(monitor)["event"])
        assert events[-1] == zmq.EVENT_HANDSHAKE_SUCCEEDED
        socket.disable_monitor()
        return socket

    def heard():
        return server.recv_multipart()[1].decode() if server.poll(WAIT) else None

    first = worker()
    first.send(b"gradient 1")
    assert heard() == "gradient 1"
    second = worker()  # the restarted process; the first one's machine has not closed the connection
    second.send(b"gradient 2")
    beside = heard()
    server.send_multipart([b"worker 3", b"parameters"])
    answered = [name for name, socket in (("first", first), ("second", second)) if socket.poll(WAIT)]
    first.close()
    if server.poll(WAIT):
        server.recv_multipart()
    second.send(b"gradient 3")
    behind = heard()
    third = worker()
    third.send(b"gradient 4")
    after = heard()
    for socket in (second, third, server):
        socket.close(0)
    return beside, answered, behind, after


print("libzmq", zmq.zmq_version(), "pyzmq", zmq.__version__)
print("guess: a restarted worker takes its identity over, or is refused; at the latest it is heard once the old one has gone")
seen = {}
for handover in (0, 1):
    seen[handover] = scenario(handover)
    beside, answered, behind, after = seen[handover]
    print(f"router_handover={handover}: connected and shaken hands; beside the first the server hears {beside}, its answer goes to the "
          f"{' and '.join(answered) or 'nobody'}, behind the first one's end it hears {behind}, from a third worker {after}")
as_found = seen[0] == (None, ["first"], None, "gradient 4") and seen[1] == ("gradient 2", ["second"], "gradient 3", "gradient 4")
print("as found: every send succeeds, and nothing arrives" if as_found else "CHANGED")
sys.exit(0 if as_found else 1)
PY
cd "$tmp" && "$tmp/venv/bin/python" check.py
