"""A relay that resets connections."""

import random
import socket
import struct
import threading


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


class Breaker:
    """Stands between nodes and a server at 127.0.0.1, and resets each connection after as many bytes as chance wants:
    what is on its way then, in either direction, is lost. After `breaks` of them it breaks no more."""

    def __init__(self, port, seed, breaks, least, most):
        self._server = port
        self._random = random.Random(seed)
        self._left = breaks
        self._range = (least, most)
        self._lock = threading.Lock()
        self._sockets = []
        self._threads = []
        self.broken = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._start(self._accept)

    def break_all(self):
        """At once; further ones are let through."""
        with self._lock:
            sockets, self._sockets = self._sockets, []
        for one in sockets:
            self._end(one)

    def close(self):
        self.break_all()
        self._end(self._listener)
        for thread in self._threads:
            thread.join()

    def _start(self, target, *arguments):
        self._threads.append(threading.Thread(target=target, args=arguments, daemon=True))
        self._threads[-1].start()

    def _accept(self):
        while True:
            try:
                near = self._listener.accept()[0]
            except OSError:
                return  # closed
            try:
                far = socket.create_connection(("127.0.0.1", self._server))
            except OSError:  # the server has gone, or is not there yet
                self._end(near)
                continue
            for one in (near, far):  # as ZeroMQ's own
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self._lock:
                self._sockets += [near, far]
                budget = [None]
                if self._left > 0:
                    self._left -= 1
                    budget = [self._random.randint(*self._range)]
            for source, sink in ((near, far), (far, near)):
                self._start(self._pass_on, source, sink, budget)

    def _pass_on(self, source, sink, budget):
        try:
            while data := source.recv(16384):
                with self._lock:
                    breaks = budget[0] is not None and budget[0] <= len(data)
                    if budget[0] is not None:
                        data, budget[0] = data[:budget[0]], max(0, budget[0] - len(data))
                    self.broken += breaks
                sink.sendall(data)
                if breaks:
                    break
            else:
                sink.shutdown(socket.SHUT_WR)
                return
        except OSError:
            pass  # one side has gone
        self._end(source)
        self._end(sink)

    @staticmethod
    def _end(one):
        """By a reset."""
        try:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            one.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        one.close()
