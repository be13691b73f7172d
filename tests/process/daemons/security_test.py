"""Who is let in and what others can read: daemons with keys over tcp, strangers during a run. See harness.py."""

import os
import re
import shutil
import signal
import socket
import threading

import harness
from harness import DaemonTest


class Wiretap:
    """Stands between nodes and a server at 127.0.0.1 and keeps a copy of the first bytes of every connection."""

    KEPT = 1 << 20

    def __init__(self, port):
        self._server = port
        self._received = []
        self._sockets = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def received(self):
        return b"".join(bytes(part) for part in self._received)

    def close(self):
        for one in (self._listener, *self._sockets):
            try:
                one.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # its peer has gone
            one.close()

    def _accept(self):
        while True:
            try:
                near = self._listener.accept()[0]
            except OSError:
                return  # closed
            self._sockets.append(near)
            far = socket.create_connection(("127.0.0.1", self._server))
            self._sockets.append(far)
            for source, sink in ((near, far), (far, near)):
                kept = bytearray()
                self._received.append(kept)
                threading.Thread(target=self._pass_on, args=(source, sink, kept), daemon=True).start()

    def _pass_on(self, source, sink, kept):
        try:
            while data := source.recv(65536):
                if len(kept) < self.KEPT:
                    kept += data
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # one side has gone


class Security(DaemonTest):
    """Two nodes over tcp, with keys but where a test says otherwise."""

    TENSOR = b".weight"  # what every Join contains: in the names of tensors

    def setUp(self):
        super().setUp()
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.endpoint = f"tcp://127.0.0.1:{self.port}"
        self.at = f"cluster.endpoints=[{self.endpoint}]"
        self.keys = self.make_keys("keys", "--nodes", 2)

    def make_keys(self, name, *arguments):
        made = self.paceline("keygen", "--out", self.folder / name, *arguments)
        self.assertEqual((made.returncode, made.stderr), (0, ""))
        return self.folder / name

    def part_of(self, name, files):
        """A folder with these files of the keys, as a machine has it."""
        folder = self.folder / name
        folder.mkdir(mode=0o700)
        for file in files:
            shutil.copy2(self.keys / file, folder)
        return folder

    def wait_until_gone(self, node, pattern):
        """A daemon that is not let in ends by itself, long before cluster.start_timeout, and says why."""
        self.assert_ends(node, 1, rf"paceline-worker \d: server shard 0 \({re.escape(self.endpoint)}\): {pattern}")

    def test_with_keys_a_run_trains_and_strangers_stay_out(self):
        server_part = self.part_of("server", ["server.key", "node-0.pub", "node-1.pub"])
        parts = [self.part_of(f"node{i}", [f"node-{i}.key", "server.pub"]) for i in range(2)]
        strangers = self.make_keys("strangers", "--nodes", 2)
        # Node 0 speaks through the wiretap, so its payloads, too, go over the wire.
        tap = Wiretap(self.port)
        self.addCleanup(tap.close)
        server = self.server(0, self.at, f"security.keys={server_part}", "cluster.shared_memory=off")
        self.wait_for_log("server.log", "shard 0 listens on")
        through = f"cluster.endpoints=[tcp://127.0.0.1:{tap.port}]"
        nodes = [self.node(i, through if i == 0 else self.at, f"security.keys={parts[i]}", "cluster.shared_memory=off")
                 for i in range(2)]
        server.wait_for_line(harness.PROGRESS.pattern)

        elsewhere = (self.at, f"run.out={self.folder}/elsewhere", "cluster.start_timeout=10m")
        shutil.copy2(self.keys / "server.pub", strangers / "server.pub")
        self.wait_until_gone(self.node(1, *elsewhere, f"security.keys={strangers}"),
                             r"does not know our key: its security\.keys folder lacks the node-1\.pub that belongs to "
                             r"our node-1\.key")
        server.wait_for_line(r"kept out 127\.0\.0\.1: its key \S{40} is not among those that are let in")
        misled = self.part_of("misled", ["node-1.key"])
        shutil.copy2(self.make_keys("other", "--nodes", 1) / "server.pub", misled)
        self.wait_until_gone(self.node(1, *elsewhere, "--force", f"security.keys={misled}"),
                             r"breaks the handshake off: its key is not that of our server\.pub, another program is "
                             r"listening there, or it has no room for more connections \(which its log says\)")
        self.wait_until_gone(self.node(1, *elsewhere, "--force"), r"demands keys, and we have none: give us "
                             r"security\.keys")
        # A key that is let in, and another node's number.
        self.wait_until_gone(self.node(1, *elsewhere, "--force", f"security.keys={self.renamed(0, 1)}"),
                             r"refuses us: node 1: got the key node-0\.key, expected node 1's own")

        server.send(signal.SIGTERM)
        self.assertEqual(server.end(), 1)
        for node in nodes:
            self.assertEqual(node.end(), 1, node.errors())
        summary = self.summary()
        self.assertEqual((summary["status"], summary["reason"]), ("stopped", "stopped by a signal"))
        self.assertEqual(summary["lost_nodes"], 0)
        self.assertGreater(summary["iterations"], 0)
        received = tap.received()
        self.assertGreater(len(received), 100_000)
        self.assertNotIn(self.TENSOR, received)

    def renamed(self, owner, other):
        """Keys in which node `owner`'s secret lies under the name of another node."""
        folder = self.part_of("renamed", ["server.pub"])
        shutil.copy2(self.keys / f"node-{owner}.key", folder / f"node-{other}.key")
        return folder

    def test_without_keys_the_same_words_can_be_read_on_the_way(self):
        tap = Wiretap(self.port)
        self.addCleanup(tap.close)
        server = self.server(0, self.at, "train.total_iterations=40")
        self.wait_for_log("server.log", "shard 0 listens on")
        nodes = [self.node(i, f"cluster.endpoints=[tcp://127.0.0.1:{tap.port}]", "train.total_iterations=40")
                 for i in range(2)]
        self.assert_end_quietly([server, *nodes])
        self.assertIn(self.TENSOR, tap.received())

    def test_shards_have_the_servers_key_and_all_nodes_may_have_one(self):
        self.configure(shards=2)
        keys = self.make_keys("one")
        servers, nodes = self.start_run("train.total_iterations=40", f"security.keys={keys}")
        self.assert_end_quietly(servers + nodes)
        self.assertEqual((self.summary()["status"], self.summary()["iterations"]), ("ok", 40))

    def test_a_shard_without_the_servers_key_says_so(self):
        self.configure(shards=2)
        self.server(0, f"security.keys={self.keys}")
        self.wait_for_log("server.log", "shard 0 listens on")
        other = self.make_keys("other", "--nodes", 2)
        self.assert_ends(self.server(1, f"security.keys={other}"), 1, rf"paceline-server 1: the authority "
                         rf"\({re.escape(self.endpoints[0])}\): breaks the handshake off: its key is not that of .*")
        self.assert_ends(self.server(1, "--force"), 1, rf"paceline-server 1: the authority "
                         rf"\({re.escape(self.endpoints[0])}\): demands keys, and we have none: .*")

    def test_without_keys_daemons_stay_on_their_machine(self):
        endpoint = "tcp://0.0.0.0:5555"
        complaint = (r"command line: cluster\.endpoints\[0\]: other machines reach it, and there are no keys, got "
                     rf"{re.escape(endpoint)}, expected security\.keys \(`paceline keygen` makes them\), an address of "
                     r"this machine alone .*, or security\.allow_insecure: true")
        at = f"cluster.endpoints=[{endpoint}]"
        self.assert_ends(self.server(0, at), 2, "paceline-server: " + complaint)
        self.assert_ends(self.node(0, at), 2, "paceline-worker: " + complaint)
        checked = self.paceline("check-config", self.config, at)
        self.assertEqual(checked.returncode, 2)
        self.assertRegex(checked.stderr, complaint)
        for remedy in (f"security.keys={self.keys}", "security.allow_insecure=true"):
            self.assertEqual(self.paceline("check-config", self.config, at, remedy).returncode, 0)
        self.assertFalse(self.run_dir.exists())

    def test_keys_that_others_can_read_are_refused(self):
        os.chmod(self.keys / "server.key", 0o640)
        os.chmod(self.keys / "node-0.key", 0o604)
        given = f"security.keys={self.keys}"
        secret = r"expected a secret that nobody else can read \(chmod 600\)"
        self.assert_ends(self.server(0, given), 2,
                         rf"paceline-server: {self.keys}/server\.key: got mode 0640, {secret}")
        self.assert_ends(self.node(0, given), 2,
                         rf"paceline-worker 0: {self.keys}/node-0\.key: got mode 0604, {secret}")
        self.assert_ends(self.node(1, "security.keys=absent"), 2,
                         "paceline-worker 1: cannot read absent: No such file or directory; `paceline keygen` makes keys")

    def test_a_run_is_not_replaced_by_one_that_cannot_have_its_keys(self):
        self.run_dir.mkdir()
        for name in ("server.log", "summary.json", "model.bin", "config.yaml"):
            (self.run_dir / name).write_text("of the earlier run\n")
        (self.keys / "node-1.pub").unlink()
        self.assert_ends(self.server(0, "--force", f"security.keys={self.keys}"), 2,
                         rf"paceline-server: {self.keys}/node-1\.pub is not there, so node 1 could not join; .*")
        for file in self.run_dir.iterdir():
            self.assertEqual(file.read_text(), "of the earlier run\n", file.name)

    def test_keygen_replaces_nothing(self):
        before = {file.name: file.read_bytes() for file in self.keys.iterdir()}
        self.assertEqual(sorted(before), ["node-0.key", "node-0.pub", "node-1.key", "node-1.pub", "server.key",
                                          "server.pub"])
        again = self.paceline("keygen", "--out", self.keys, "--nodes", 3)
        self.assertEqual(again.returncode, 2)
        self.assertIn(f"{self.keys}/server.key is there already", again.stderr)
        self.assertEqual(before, {file.name: file.read_bytes() for file in self.keys.iterdir()})
        self.assertEqual(self.paceline("keygen", "--out", self.folder / "none", "--nodes", 0).returncode, 2)
        self.assertEqual(self.paceline("keygen").returncode, 2)


if __name__ == "__main__":
    harness.main()
