#!/usr/bin/env bash
# nng: a request that has no answer for a minute is sent again, on a sound connection, and the server has it twice.
set -eu
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
python3 -m venv "$tmp/venv"
"$tmp/venv/bin/pip" install -q pynng==0.9.0
cat >"$tmp/check.py" <<'PY'
import sys
import threading

import pynng

WAIT = 5000  # milliseconds
THREADS = 3  # of the server: each receives a push and holds its answer back until the round is over


def pushed_once(resend, address):
    """(what the server's threads received of one push, the answers, the worker's connections)"""
    received, connections = [], []
    with pynng.Rep0(listen=address) as server, pynng.Req0() as worker:
        worker.add_post_pipe_connect_cb(connections.append)
        worker.dial(address, block=True)
        worker.resend_time, server.recv_timeout, worker.recv_timeout = resend, WAIT, 2 * WAIT

        def serve():
            threads = [server.new_context() for _ in range(THREADS)]
            for thread in threads:
                try:
                    received.append(thread.recv().decode())
                except pynng.Timeout:
                    break
            threads[0].send(b"the round is over")

        waiting = threading.Thread(target=serve)
        waiting.start()
        worker.send(b"gradient 1")
        answer = worker.recv().decode()
        waiting.join()
        return received, answer, len(connections)


print("pynng", pynng.__version__)
print("guess: a request over a stream is delivered once; where its connection is lost an error is raised")
with pynng.Req0() as fresh:
    preset = fresh.resend_time
print(f"resend_time of a new socket: {preset} ms")
seen = {}
for resend in (300, -1):  # the first stands for the minute
    seen[resend] = pushed_once(resend, f"ipc://{sys.argv[1]}/socket{abs(resend)}")
    received, answer, connections = seen[resend]
    print(f"resend_time={resend}: one push, {connections} connection; the server has received {received}, the worker hears '{answer}'")
once = (["gradient 1"], "the round is over", 1)
as_found = preset == 60000 and seen[-1] == once and seen[300] == (["gradient 1"] * THREADS, *once[1:])
print("as found: who answers at the end of a long round has added a gradient several times" if as_found else "CHANGED")
sys.exit(0 if as_found else 1)
PY
cd "$tmp" && "$tmp/venv/bin/python" check.py "$tmp"
