#!/usr/bin/env python3
"""Real daemons on real sockets: whole runs, crashes, bad input. Each fault must end in one clear line, a truthful
exit status (0 ok, 1 failed or stopped, 2 wrong usage), no hang and no process left behind.

    daemons_test.py BIN SOURCE [Class[.test]…]     BIN: the folder of the programs, SOURCE: the checkout
"""

import os
import random
import re
import shutil
import signal
import socket
import sys
import unittest
from pathlib import Path

import harness
from harness import DaemonTest, ZmtpPeer


class WholeRuns(DaemonTest):
    """A run of every policy, with everything that it leaves in its directory."""

    def run_policy(self, *overrides):
        self.configure(shards=2)
        servers, nodes = self.start_run("train.total_iterations=200", *overrides)
        for program in servers + nodes:
            self.assert_ends(program, 0)
        summary = self.summary()
        self.assertEqual(summary["status"], "ok")
        self.assertEqual(summary["iterations"], 200)
        for name in ("config.yaml", "server.log", "server-1.log", "worker-0.log", "worker-1.log", "phases.csv",
                     "curve.csv", "model.bin"):
            self.assertTrue((self.run_dir / name).stat().st_size > 0, name)
        report = self.paceline("report", self.run_dir)
        self.assertEqual((report.returncode, report.stderr), (0, ""))
        self.assertIn(f"{self.run_dir}: ok\n", report.stdout)
        self.assertIn("all nodes (4 workers)", report.stdout)
        evaluated = self.paceline("evaluate", self.run_dir)
        self.assertEqual((evaluated.returncode, evaluated.stderr), (0, ""))
        self.assertIn(f"test loss {summary['test_loss']:.4f}, accuracy {100 * summary['test_accuracy']:.2f} % of 100",
                      evaluated.stdout)
        return summary

    def test_bsp(self):
        self.assertEqual(self.run_policy("sync.policy=bsp")["max_grant_gap"], 0)

    def test_asp(self):
        self.assertIsNone(self.run_policy("sync.policy=asp")["final_threshold"])

    def test_ssp(self):
        summary = self.run_policy("sync.policy=ssp", "sync.threshold=2")
        self.assertEqual(summary["final_threshold"], 2)
        self.assertLessEqual(summary["max_grant_gap"], 2)

    def test_dtssp(self):
        summary = self.run_policy("sync.policy=dtssp", "sync.lpr.window_clocks=5")
        self.assertTrue(3 <= summary["final_threshold"] <= 10, summary["final_threshold"])


class Stops(DaemonTest):
    """Ends before the last iteration: wanted ones are ok, a signal is not."""

    def test_max_seconds_ends_well(self):
        servers, nodes = self.start_run("run.max_seconds=300ms")
        for program in servers + nodes:
            self.assert_ends(program, 0)
        self.assertEqual(self.summary()["status"], "ok")
        self.assertGreaterEqual(self.summary()["wall_seconds"], 0.3)

    def test_target_accuracy_ends_well(self):
        servers, nodes = self.start_run("run.target_accuracy=0.01", "train.eval_every_clocks=5")
        for program in servers + nodes:
            self.assert_ends(program, 0)
        self.assertEqual(self.summary()["status"], "ok")
        self.assertGreaterEqual(self.summary()["test_accuracy"], 0.01)

    def test_a_signal_at_the_authority_keeps_the_model(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            with self.subTest(signal=number):
                servers, nodes = self.start_training("--force")
                servers[0].send(number)
                self.assert_ends(servers[0], 1, r"paceline-server: stopping: stopped by a signal")
                for i, node in enumerate(nodes):
                    self.assert_ends(node, 1, rf"paceline-worker {i}: stopped by a signal")
                self.assertEqual(self.summary()["status"], "stopped")
                self.assertEqual(self.summary()["reason"], "stopped by a signal")
                self.assertIsNotNone(self.summary()["test_accuracy"])
                self.assertEqual(self.paceline("evaluate", self.run_dir).returncode, 0)

    def test_a_signal_before_everybody_has_joined(self):
        server, node = self.server(0), self.node(0)
        self.wait_for_log("server.log", "node 0 joined")
        server.send(signal.SIGTERM)
        why = "stopped by a signal before training began; node 1 has not joined"
        self.assert_ends(server, 1, "paceline-server: the run failed: " + why)
        self.assert_ends(node, 1, "paceline-worker 0: " + why)
        self.assertEqual((self.summary()["status"], self.summary()["reason"]), ("stopped", why))

    def test_a_signal_at_a_node_is_its_goodbye_and_the_others_go_on(self):
        servers, nodes = self.start_training("run.max_seconds=5s")
        nodes[1].send(signal.SIGTERM)
        self.assert_ends(servers[0], 0, "paceline-server: node 1 lost: stopped by a signal")
        self.assert_ends(nodes[0], 0)
        self.assert_ends(nodes[1], 1, "paceline-worker 1: stopped by a signal")
        self.assertEqual(self.summary()["lost"], ["node 1: stopped by a signal"])

    def test_a_second_signal_ends_a_daemon_at_once(self):
        servers, nodes = self.start_training()
        nodes[0].send(signal.SIGSTOP)  # its report never comes: the orderly end has to wait for the lease
        servers[0].send(signal.SIGTERM)
        servers[0].wait_for_line("stopping")
        servers[0].send(signal.SIGTERM)
        self.assert_ends(servers[0], 1, "paceline-server: stopping: stopped by a signal")
        self.assertFalse((self.run_dir / "summary.json").exists())
        nodes[0].send(signal.SIGKILL)


class Crashes(DaemonTest):
    """kill -9 of each part in the middle of a run."""

    def test_a_killed_node_is_named_and_the_others_go_on(self):
        servers, nodes = self.start_training("run.max_seconds=5s")
        nodes[1].send(signal.SIGKILL)
        self.assert_ends(servers[0], 0, "paceline-server: node 1 lost: its connection broke")
        self.assert_ends(nodes[0], 0)
        summary = self.summary()
        self.assertEqual((summary["status"], summary["lost_nodes"]), ("ok", 1))
        self.assertEqual(summary["lost"], ["node 1: its connection broke"])

    def test_a_node_that_stands_still_is_lost_after_its_lease_and_learns_of_it(self):
        servers, nodes = self.start_training("run.max_seconds=5s", "cluster.lease=3s")
        nodes[1].send(signal.SIGSTOP)
        servers[0].wait_for_line(r"node 1 lost: silent for \d+\.\d s")
        nodes[1].send(signal.SIGCONT)
        self.assert_ends(nodes[1], 1, r"paceline-worker 1: server shard 0 \(ipc://.*/0\): refuses us: "
                         "node 1 has gone from this run|"
                         r"paceline-worker 1: server shard 0 \(ipc://.*/0\) silent for \d+\.\d s")
        self.assertEqual(servers[0].end(), 0)
        self.assert_ends(nodes[0], 0)

    def test_with_all_nodes_killed_the_run_has_failed(self):
        servers, nodes = self.start_training()
        for node in nodes:
            node.send(signal.SIGKILL)
        self.assertEqual(servers[0].end(), 1)
        self.assertEqual(sorted(servers[0].errors()[:2]),
                         [f"paceline-server: node {i} lost: its connection broke" for i in range(2)])
        self.assertEqual(servers[0].errors()[2:],
                         ["paceline-server: every node was lost before its share was done"])
        self.assertEqual(self.summary()["status"], "failed")

    def test_without_the_authority_everybody_ends_after_the_lease(self):
        self.configure(shards=2)
        servers, nodes = self.start_training("cluster.lease=3s")
        servers[0].send(signal.SIGKILL)
        for i, node in enumerate(nodes):
            self.assert_ends(node, 1,
                             rf"paceline-worker {i}: server shard 0 \({self.endpoints[0]}\) silent for \d+\.\d s")
        self.assert_ends(servers[1], 1,
                         rf"paceline-server 1: the authority \({self.endpoints[0]}\) was silent for \d+\.\d s")

    def test_a_killed_shard_ends_the_run_and_everybody_names_it(self):
        self.configure(shards=2)
        servers, nodes = self.start_training()
        servers[1].send(signal.SIGKILL)
        lost = rf"server shard 1 \({self.endpoints[1]}\) lost: its connection broke"
        self.assert_ends(servers[0], 1, "paceline-server: the run failed: " + lost)
        for i, node in enumerate(nodes):
            self.assert_ends(node, 1, f"paceline-worker {i}: " + lost)
        self.assertRegex(self.summary()["reason"], lost)


class Starts(DaemonTest):
    """Who is missing, and who is not let in."""

    def test_a_missing_node_is_named(self):
        node = self.ready_node(0)
        server = self.server(0, "cluster.start_timeout=3s")
        self.assert_ends(server, 1, "paceline-server: the run failed: node 1 has not joined within 3 s")
        self.assert_ends(node, 1, "paceline-worker 0: node 1 has not joined within 3 s")

    def test_a_missing_shard_is_named(self):
        self.configure(shards=2)
        nodes = [self.ready_node(i) for i in range(2)]
        server = self.server(0, "cluster.start_timeout=3s")
        self.assert_ends(server, 1, "paceline-server: the run failed: shard 1 has not joined within 3 s")
        for i, node in enumerate(nodes):
            self.assert_ends(node, 1, rf"paceline-worker {i}: shard 1 has not joined within 3 s")

    def test_a_missing_authority_is_named(self):
        self.configure(shards=2)
        self.assert_ends(self.server(1, "cluster.start_timeout=1s"), 1,
                         rf"paceline-server 1: the authority \({self.endpoints[0]}\) has not answered within 1.0 s")
        shard = self.server(1, "--force")
        self.assert_ends(self.node(0, "cluster.start_timeout=3s"), 1, rf"paceline-worker 0: server shard 0 "
                         rf"\({self.endpoints[0]}\) did not answer node 0's join within 3 s")
        shard.send(signal.SIGTERM)
        self.assert_ends(shard, 1, "paceline-server 1: stopped by a signal")

    def test_a_port_in_use(self):
        with socket.socket() as used:
            used.bind(("127.0.0.1", 0))
            used.listen()
            endpoint = f"tcp://127.0.0.1:{used.getsockname()[1]}"
            server = self.server(0, f"cluster.endpoints=[{endpoint}]")
            self.assert_ends(server, 1, f"paceline-server: cannot bind {endpoint}: Address already in use")

    def ready_node(self, number):
        """A node that only waits for its servers: what it has to do takes long on a busy machine."""
        node = self.node(number)
        self.wait_for_log(f"worker-{number}.log", "")
        return node

    def refused_node(self, number, *overrides):
        """A whole run but for this node, which must be refused; returns what it was told."""
        server, node = self.server(0), self.node(0)
        self.wait_for_log("server.log", "node 0 joined")
        other = self.node(number, *overrides)
        self.assertEqual(other.end(), 1)
        self.assertEqual(len(other.errors()), 1, other.errors())
        told = re.fullmatch(rf"paceline-worker {number}: server shard 0 \({self.endpoints[0]}\): refuses us: (.*)",
                            other.errors()[0])
        self.assertTrue(told, other.errors())
        server.send(signal.SIGTERM)
        why = "stopped by a signal before training began; node 1 has not joined"
        if number == 1:
            why += "; refused: " + re.escape(told[1])
        self.assert_ends(server, 1, "paceline-server: refused: " + re.escape(told[1]),
                         "paceline-server: the run failed: " + why)
        self.assert_ends(node, 1, "paceline-worker 0: " + why)
        self.assertRegex(self.summary()["reason"], f"^{why}$")
        return told[1]

    def test_another_configuration_is_refused(self):
        for override in ("run.seed=4", "train.layers=[{kind: flatten}, {kind: dense, out: 5}, {kind: dense, out: 10}]"):
            with self.subTest(override=override):
                shutil.rmtree(self.run_dir, ignore_errors=True)
                self.assertRegex(self.refused_node(1, override),
                                 "^node 1: configuration fingerprint 0x[0-9a-f]{16}, expected 0x[0-9a-f]{16}: "
                                 "give every daemon the same configuration$")

    def test_a_node_number_is_taken_once(self):
        self.assertRegex(self.refused_node(0, f"run.out={self.folder}/another"), "^node 0: already taken by another "
                         r"process of this run \(incarnation 0x[0-9a-f]{16}, got 0x[0-9a-f]{16}\)$")

    def test_the_log_of_a_live_node_is_left_alone(self):
        server, node = self.server(0), self.node(0)
        self.wait_for_log("server.log", "node 0 joined")
        self.assert_ends(self.node(0), 2, r"paceline-worker: the run directory .* already holds a run of node 0 "
                         r"\(worker-0\.log\); choose another run\.out, or replace it with --force")
        self.assert_ends(self.node(0, "--force"), 2, r"paceline-worker: the run directory .* already holds a run of "
                         r"node 0 \(worker-0\.log\), and that node is still alive")
        server.send(signal.SIGTERM)
        self.assertEqual((server.end(), node.end()), (1, 1))
        self.assertIn("node 1 has not joined", (self.run_dir / "worker-0.log").read_text())

    def test_another_protocol_version_is_refused(self):
        server = self.server(0)
        self.wait_for_log("server.log", "listens on")
        peer = ZmtpPeer(self.endpoints[0])
        peer.send(b"\x0a\x04\x08\x63\x10\x01")  # Join {protocol_version: 99, node: 1}
        self.assertIn(b"node 1: protocol version 99, expected 1", peer.frame())
        peer.close()
        server.send(signal.SIGTERM)
        self.assert_ends(server, 1, "paceline-server: refused: node 1: protocol version 99, expected 1",
                         "paceline-server: the run failed: stopped by a signal before training began; node 0, node 1 "
                         "have not joined; refused: node 1: protocol version 99, expected 1")

    def test_another_layout_is_refused(self):
        server, node = self.server(0), self.node(0)
        self.wait_for_log("server.log", "node 0 joined")
        peer = ZmtpPeer(self.endpoints[0])
        peer.send(join_of_another_layout(fingerprint=0))
        expected = re.search(rb"expected 0x([0-9a-f]{16}): give every daemon", peer.frame())
        peer.send(join_of_another_layout(fingerprint=int(expected[1], 16)))
        self.assertRegex(peer.frame().decode(errors="replace"),
                         "node 1: parameter layout 0x3d22d8b370a6fc7b, expected 0x[0-9a-f]{16} as node 0 has")
        peer.close()
        server.send(signal.SIGTERM)
        self.assertEqual((server.end(), node.end()), (1, 1))


def join_of_another_layout(fingerprint):
    """The Join of a node 1 with two threads and the layout {w [2, 3], b [3]} of docs/PROTOCOL.md, section 5."""
    fields = (b"\x08\x01" + b"\x10\x01" + b"\x19" + bytes(7) + b"\x01" + b"\x20\x02" +
              b"\x29" + fingerprint.to_bytes(8, "little") + b"\x31" + 0x3D22D8B370A6FC7B.to_bytes(8, "little") +
              b"\x3a\x07\x0a\x01w\x12\x02\x02\x03" + b"\x3a\x06\x0a\x01b\x12\x01\x03")
    return b"\x0a" + bytes([len(fields)]) + fields


class BadInput(DaemonTest):
    """Wrong configurations, arguments, data and folders: exit status 2, or 1 where the machine is to blame."""

    def assert_both_refuse(self, pattern, *overrides):
        """Server and node say the same one line."""
        self.assert_ends(self.server(0, *overrides), 2, "paceline-server: " + pattern)
        self.assert_ends(self.node(0, *overrides), 2, "paceline-worker: " + pattern)

    def test_wrong_yaml_is_named_by_file_line_and_key(self):
        for text, complaint in (
                ("sync: {polcy: bsp}", r'sync\.polcy: unknown key, got "sync\.polcy", expected a key of '
                 r"configs/reference\.yaml \(did you mean sync\.policy\?\)"),
                ("sync: {policy: dtssp, threshold_min: 5, threshold_max: 4}", r"sync\.threshold_min: threshold_min > "
                 r"threshold_max, got \[5, 4\], expected threshold_min <= threshold_max"),
                ("sync: {lpr: {increase_above: .nan}}",
                 r'sync\.lpr\.increase_above: not a finite number, got "\.nan", expected a number')):
            with self.subTest(text=text):
                self.configure(text=text + "\n")
                line = self.config.read_text(encoding="utf-8").count("\n")
                self.assert_both_refuse(rf"{self.config}:{line}: {complaint}")

    def test_wrong_overrides_are_named_by_key(self):
        for override, complaint in (
                ("cluster.nodes=0",
                 r'command line: cluster\.nodes: out of range, got "0", expected a whole number from 1 to 4096'),
                ("cluster.threads_per_node=0", r'command line: cluster\.threads_per_node: out of range, got "0", '
                 "expected a whole number from 1 to 256"),
                ("cluster.nodes=two",
                 r'command line: cluster\.nodes: wrong type, got "two", expected a whole number from 1 to 4096'),
                ("train.optimizer.lr=.nan", r'command line: train\.optimizer\.lr: not a finite number, got "\.nan", '
                 "expected a number above 0 and at most 1000"),
                ("cluster.shards=2", r".*/run\.yaml:6: cluster\.endpoints: as many endpoints as shards are needed, "
                 "got 1, expected 2")):
            with self.subTest(override=override):
                self.assert_both_refuse(complaint, override)

    def test_wrong_arguments_are_usage_errors(self):
        server, worker = harness.BIN / "paceline-server", harness.BIN / "paceline-worker"
        for program, *arguments, complaint in (
                (worker, self.config, "--node", 5,
                 r"command line: --node: no such node, got 5, expected 0 to 1 \(cluster\.nodes\)"),
                (server, self.config, "--shard", 3,
                 r"command line: --shard: no such shard, got 3, expected 0 to 0 \(cluster\.shards\)"),
                (worker, self.config, "--node", "x", r"Could not convert: --node = x \(see .*\)"),
                (worker, self.config, r"--node is required \(see paceline-worker --help\)"),
                (server, self.config, "--bogus", r"The following argument was not expected: --bogus \(see .*\)"),
                (server, "absent.yaml", r'absent\.yaml: cannot read the configuration, got "No such file or '
                 r'directory", expected a YAML file')):
            with self.subTest(arguments=arguments):
                self.assert_ends(self.start(program, *arguments), 2, f"{program.name}: {complaint}")

    def test_missing_and_truncated_data(self):
        data = self.folder / "other"
        self.assert_ends(self.node(0, f"data.path={data}"), 2, f"paceline-worker 0: data folder '{data}' does not "
                         "exist; generate a data set with .*")
        shutil.copytree(self.data, data)
        batch = data / "data_batch_3.bin"
        os.truncate(batch, 5000)
        self.assert_ends(self.node(0, f"data.path={data}"), 2, f"paceline-worker 0: data file '{batch}': got 5000 "
                         r"bytes, expected a multiple of 3073 \(3073 or 6146\); it is truncated or .*")
        batch.unlink()
        self.assert_ends(self.node(0, f"data.path={data}"), 2, f"paceline-worker 0: data folder '{data}': got "
                         r"data_batch_4\.bin, expected data_batch_3\.bin before it .*")
        shutil.copy(self.data / batch.name, batch)
        (data / "test_batch.bin").unlink()
        self.assert_ends(self.node(0, f"data.path={data}"), 2,
                         f"paceline-worker 0: data file '{data}/test_batch.bin' does not exist; .*")

    def test_a_run_directory_is_used_once(self):
        self.assertEqual(self.server(0, "cluster.start_timeout=10ms").end(), 1)
        self.assert_ends(self.server(0), 2, rf"paceline-server: the run directory {self.run_dir} already holds a run "
                         r"\(server\.log\); choose another run\.out, or replace it with --force")
        self.assert_ends(self.server(0, "--force", "cluster.start_timeout=10ms"), 1, "paceline-server: the run failed: .*")

    def test_a_run_directory_that_cannot_be_made(self):
        file = self.folder / "file"
        file.touch()
        out = f"run.out={file}/run"
        self.assert_ends(self.server(0, out), 1,
                         f"paceline-server: cannot make the run directory {file}/run: Not a directory")
        self.assert_ends(self.node(0, out), 1, f"paceline-worker: cannot create {file}/run: Not a directory")


class NotFinite(DaemonTest):
    """A learning rate at which two dense layers overflow within a few clocks."""

    diverging = ("train.layers=[{kind: flatten}, {kind: dense, out: 16}, {kind: dense, out: 10}]",
                 "train.optimizer.lr=1000", "train.total_iterations=400")

    def test_stop_names_worker_clock_and_tensor(self):
        servers, nodes = self.start_run(*self.diverging)
        fault = r"worker \d\.\d at clock \d+: not finite: (loss|gradient of fc\d\.\w+) is -?(nan|inf).*"
        self.assert_ends(servers[0], 1, "paceline-server: " + fault)
        for i, node in enumerate(nodes):
            self.assert_ends(node, 1, f"paceline-worker {i}: " + fault)
        self.assertEqual(self.summary()["status"], "failed")
        self.assertRegex(self.summary()["reason"], fault)

    def test_skip_goes_on_and_counts(self):
        servers, nodes = self.start_run(*self.diverging, "train.on_nan=skip")
        self.assert_ends(servers[0], 1, r"paceline-server: version \d+ was not evaluated: the test loss is not finite")
        for i, node in enumerate(nodes):
            self.assertEqual(node.end(), 1, f"node {i}")
        summary = self.summary()
        # Training went on to its end; a final model without a loss is still no success.
        self.assertEqual(summary["status"], "failed")
        self.assertRegex(summary["reason"], r"the final model, version \d+ was not evaluated: the test loss is not finite")
        self.assertGreater(summary["skipped"], 0)
        self.assertEqual(summary["iterations"] + summary["skipped"], 400)
        self.assertIsNone(summary["test_accuracy"])


class Garbage(DaemonTest):
    """Random bytes for a server in the middle of a run."""

    def test_a_live_server_refuses_and_counts_it(self):
        seed = random.randrange(2**32)
        noise = random.Random(seed)
        servers, nodes = self.start_training("run.max_seconds=5s")
        for _ in range(20):
            with socket.socket(socket.AF_UNIX) as raw:
                raw.connect(self.endpoints[0].removeprefix("ipc://"))
                try:
                    raw.sendall(noise.randbytes(2000))
                except OSError:
                    pass  # refused before the last byte
        peer = ZmtpPeer(self.endpoints[0])
        for _ in range(20):
            peer.send(noise.randbytes(60))
            peer.send(noise.randbytes(20), noise.randbytes(60))
        peer.send(b"\x0a\x04\x08\x63\x10\x01")  # a Join of version 99, whose answer says that all was taken
        self.assertIn(b"protocol version 99", peer.frame())
        peer.close()
        with self.subTest(seed=seed):
            self.assertEqual(servers[0].end(), 0)
            for node in nodes:
                self.assert_ends(node, 0)
            self.assertEqual((self.summary()["status"], self.summary()["lost_nodes"]), ("ok", 0))
            self.assertGreaterEqual(self.summary()["malformed"], 41)


class Scripts(DaemonTest):
    """scripts/: what a user starts. Whatever ends a script, its daemons end too."""

    def script(self, name, *arguments):
        """A script on the run's configuration."""
        return self.start("bash", harness.SOURCE / "scripts" / name, *arguments)

    def run_local(self, *arguments):
        return self.script("run_local.sh", self.config, "--out", self.run_dir, "--bin", harness.BIN, *arguments)

    def wait_for_no_children(self, but):
        """Everything that the script started has ended, or is killed here and reported."""
        for pid in harness.children():
            if pid != but.pid:
                self.assertTrue(harness.wait_for_exit(pid), f"still there: {harness.command_of(pid)}")
                os.waitpid(pid, 0)

    def test_run_local_trains_and_prints_the_table(self):
        self.configure(shards=2)
        script = self.run_local("train.total_iterations=100")
        self.assertEqual(script.end(), 0, script.errors())
        self.assertEqual(script.errors(), [])
        self.assertIn("all nodes (4 workers)", script.output())
        self.assertIn(f"{self.run_dir}: ok", script.output())
        self.assertEqual(self.summary()["iterations"], 100)

    def test_run_local_stops_in_order_on_one_signal(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            with self.subTest(signal=number):
                script = self.run_local("--force")
                script.wait_for_line(harness.PROGRESS.pattern)
                script.send(number)
                self.assertEqual(script.end(), 1, script.errors())
                self.assertIn("run_local: stopping (again to end at once)", script.errors())
                self.assertEqual(self.summary()["status"], "stopped")
                self.assertTrue((self.run_dir / "model.bin").exists())
                self.assertEqual(harness.children(), [])

    def test_run_local_ends_at_once_on_the_second_signal(self):
        script = self.run_local()
        script.wait_for_line(harness.PROGRESS.pattern)
        for pid in harness.children_of(script.pid):
            if b"paceline-worker" in harness.command_of(pid).encode():
                os.kill(pid, signal.SIGSTOP)  # the orderly end has to wait for them
        script.send(signal.SIGTERM)
        script.wait_for_line("stopping")
        script.send(signal.SIGTERM)
        self.assertEqual(script.end(), 1, script.errors())
        self.wait_for_no_children(script)
        self.assertFalse((self.run_dir / "summary.json").exists())

    def test_a_killed_run_local_takes_its_daemons_along(self):
        script = self.run_local()
        script.wait_for_line(harness.PROGRESS.pattern)
        daemons = [pid for pid in harness.children_of(script.pid) if "paceline-" in harness.command_of(pid)]
        self.assertEqual(len(daemons), 3)
        script.send(signal.SIGKILL)
        for pid in daemons:
            self.assertTrue(harness.wait_for_exit(pid), f"still there: {harness.command_of(pid)}")
        self.assertEqual(script.end(), -9)
        self.wait_for_no_children(script)

    def test_run_local_tells_the_truth_about_a_lost_node(self):
        script = self.run_local("run.max_seconds=5s")
        script.wait_for_line(harness.PROGRESS.pattern)
        node = next(pid for pid in harness.children_of(script.pid) if "--node 1" in harness.command_of(pid))
        os.kill(node, signal.SIGKILL)
        self.assertEqual(script.end(), 0, script.errors())
        self.assertIn(f"run_local: node 1 ended with status 137 although the run succeeded; see the logs in "
                      f"{self.run_dir}", script.errors())

    def test_run_local_with_a_port_in_use_ends_soon(self):
        with socket.socket() as used:
            used.bind(("127.0.0.1", 0))
            used.listen()
            endpoint = f"tcp://127.0.0.1:{used.getsockname()[1]}"
            script = self.run_local("--tcp", f"cluster.endpoints=[{endpoint}]", "cluster.start_timeout=1h")
            self.assertEqual(script.end(), 1, script.errors())
            self.assertIn(f"paceline-server: cannot bind {endpoint}: Address already in use", script.errors())

    def test_a_killed_run_locals_sockets_are_removed_by_the_next_one(self):
        script = self.run_local()
        script.wait_for_line(harness.PROGRESS.pattern)
        endpoint = re.search(r"ipc://(/tmp/paceline-run\.\w+)/0", (self.run_dir / "config.yaml").read_text())
        sockets = Path(endpoint[1])
        self.assertTrue(sockets.is_dir())
        os.utime(sockets, (0, 0))
        other = self.script("run_local.sh", self.config, "--out", self.folder / "other", "--bin", harness.BIN,
                            "train.total_iterations=4")
        self.assertEqual(other.end(), 0, other.errors())
        self.assertTrue(sockets.is_dir(), "those of a live run")
        script.send(signal.SIGKILL)
        self.assertEqual(script.end(), -9)
        self.wait_for_no_children(script)
        self.assertTrue(sockets.is_dir())
        script = self.run_local("--force", "train.total_iterations=4")
        self.assertEqual(script.end(), 0, script.errors())
        self.assertFalse(sockets.exists())

    def test_a_signal_during_quickstarts_installation_leaves_nothing_behind(self):
        scripts = self.folder / "checkout/scripts"
        scripts.mkdir(parents=True)
        (scripts / "lib").symlink_to(harness.SOURCE / "scripts/lib")
        shutil.copy(harness.SOURCE / "scripts/quickstart.sh", scripts)
        # As apt does it: the work is a child's child, which hears of nothing by itself.
        (scripts / "install_deps.sh").write_text("#!/bin/sh\nsh -c 'echo installing >&2; sleep 1000; true'\ntrue\n",
                                                 encoding="utf-8")
        (scripts / "install_deps.sh").chmod(0o755)
        for number in (signal.SIGTERM, signal.SIGINT):
            with self.subTest(signal=number):
                script = self.start("bash", scripts / "quickstart.sh")
                script.wait_for_line("installing")
                script.send(number)
                self.assertEqual((script.end(), script.errors()),
                                 (1, ["installing", "quickstart: stopping (again to end at once)"]))
                self.wait_for_no_children(script)

    def test_run_ssh_runs_the_daemons_of_a_host_list(self):
        ssh = self.folder / "ssh"
        ssh.write_text('#!/bin/sh\nshift\nexec sh -c "$*"\n', encoding="utf-8")  # every host is this machine
        ssh.chmod(0o755)
        hosts = self.folder / "hosts"
        hosts.write_text("# the server\nserver alpha\n\nnode alpha\nnode beta\n", encoding="utf-8")
        checkout = self.folder / "checkout"
        (checkout / "build/release").mkdir(parents=True)
        (checkout / "build/release/bin").symlink_to(harness.BIN)
        (checkout / "scripts").symlink_to(harness.SOURCE / "scripts")
        script = self.start("bash", checkout / "scripts/run_ssh.sh", self.config, hosts, "--ssh", ssh,
                            "train.total_iterations=100")
        self.assertEqual(script.end(), 0, script.errors())
        self.assertEqual(self.summary()["status"], "ok")
        script = self.start("bash", checkout / "scripts/run_ssh.sh", self.config, hosts, "--ssh", ssh, "--force")
        script.wait_for_line(harness.PROGRESS.pattern)
        script.send(signal.SIGINT)
        self.assertEqual(script.end(), 1, script.errors())
        self.assertEqual(self.summary()["status"], "stopped")
        self.wait_for_no_children(script)

    def test_compare_policies_prints_one_table(self):
        configs = []
        for policy in ("bsp", "ssp", "asp"):
            configs.append(self.folder / f"{policy}.yaml")
            shutil.copy(self.config, configs[-1])
            with open(configs[-1], "a", encoding="utf-8") as file:
                file.write(f"sync: {{policy: {policy}}}\n")
        script = self.script("compare_policies.sh", *configs, "--out", self.folder / "runs", "--bin", harness.BIN,
                             "train.total_iterations=100", "cluster.nodes=2")
        self.assertEqual(script.end(), 0, script.errors())
        table = script.output()[script.output().index("Seconds for each worker"):].splitlines()
        self.assertEqual(len(table), 2 + len(configs), table)
        for line, config in zip(table[2:], configs):
            self.assertRegex(line, rf"^{self.folder}/runs/{config.stem} +ok +{config.stem} ")
        # The same again is kept, another configuration is not.
        for seed, expected in ((3, "keeping the finished run"), (4, "is replaced: its configuration was another: had "
                                                                    "seed: 3; now seed: 4")):
            again = self.script("compare_policies.sh", configs[0], "--out", self.folder / "runs", "--bin", harness.BIN,
                                "train.total_iterations=100", "cluster.nodes=2", f"run.seed={seed}")
            self.assertEqual(again.end(), 0, again.errors())
            self.assertIn(expected, again.output())

    def test_wrong_usage(self):
        hosts = self.folder / "hosts"
        hosts.write_text("server\n", encoding="utf-8")
        for name, *arguments, complaint in (
                ("run_local.sh", "run_local: no configuration given (see --help)"),
                ("run_local.sh", self.config, "--nonsense", "run_local: unknown option '--nonsense' (see --help)"),
                ("run_local.sh", self.config, "--out", "run_local: --out needs a folder"),
                ("run_local.sh", self.config, self.config,
                 f"run_local: two configurations: '{self.config}' and '{self.config}'"),
                ("compare_policies.sh", "compare_policies: no configuration given (see --help)"),
                ("compare_policies.sh", "--nonsense", "compare_policies: unknown option '--nonsense' (see --help)"),
                ("run_ssh.sh", self.config, "run_ssh: a configuration and a host list are needed (see --help)"),
                ("run_ssh.sh", self.config, "absent", "run_ssh: cannot read the host list absent"),
                ("build.sh", "fast", "build.sh: unknown preset 'fast', expected release, debug, asan or tsan")):
            with self.subTest(script=name, arguments=arguments):
                script = self.script(name, *arguments)
                self.assertEqual((script.end(), script.errors()), (2, [complaint]))
        script = self.run_local("train.optimizer.lr=x")
        self.assertEqual(script.end(), 2)
        self.assertRegex(script.errors()[0], "train.optimizer.lr: wrong type, got \"x\"")
        self.run_dir.mkdir()
        (self.run_dir / "summary.json").touch()
        script = self.run_local()
        self.assertEqual((script.end(), script.errors()), (2, [
            f"run_local: {self.run_dir} holds an earlier run; give another --out, or --force to replace it"]))


def main():
    harness.BIN, harness.SOURCE = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])


if __name__ == "__main__":
    main()
