"""Bad input: configurations, data, peers that speak nonsense, gradients that are not finite. See harness.py."""

import contextlib
import os
import random
import shutil
import socket

import harness
from harness import DaemonTest
from zmtp_peer import ZmtpPeer


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

    def test_who_has_no_gpu_says_so_before_it_reads_data_or_makes_a_folder(self):
        built = (harness.BIN / "libpaceline_cuda.so").exists()
        started = self.start("env", "CUDA_VISIBLE_DEVICES=", harness.BIN / "paceline-worker", self.config, "--node", 0,
                             f"data.path={self.folder}/none", "train.device=cuda")
        self.assert_ends(started, 1 if built else 2, "paceline-worker 0: train.device: cuda" + (
            ": cudaGetDeviceCount: .*" if built else r", but its back end does not load: libpaceline_cuda\.so: .*"))
        self.assertFalse(self.run_dir.exists())

    def test_a_processor_without_bfloat16_is_named_before_a_node_reads_data(self):
        started = self.start("env", "ONEDNN_MAX_CPU_ISA=AVX2", harness.BIN / "paceline-worker", self.config, "--node", 0,
                             f"data.path={self.folder}/none", "train.precision=bf16")
        self.assert_ends(started, 1, r"paceline-worker 0: train\.precision: this machine's oneDNN computes with \w+, "
                         "got bf16, expected fp32, or a processor with AVX-512")
        self.assertFalse(self.run_dir.exists())

    def test_wrong_arguments_of_a_subcommand_point_to_its_own_help(self):
        out = self.folder / "made"
        for arguments, complaint in (
                ((), r"--out is required \(see paceline data synthesize --help\)"),
                (("--out", out, "--seed", "-1"), r"--seed: .*-1.* \(see paceline data synthesize --help\)"),
                (("--out", out, "--train", "3"), r"3 training samples, expected 5\.\.1000000 .*")):
            with self.subTest(arguments=arguments):
                program = self.start(harness.BIN / "paceline", "data", "synthesize", *arguments)
                self.assert_ends(program, 2, f"paceline data synthesize: {complaint}")
                self.assertFalse(out.exists())

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
        for _ in range(2):  # a run that never began leaves nothing that is to be kept
            self.assert_ends(self.server(0, "cluster.start_timeout=10ms"), 1, "paceline-server: the run failed: .*")
        shutil.rmtree(self.run_dir)
        killed = self.server(0)
        self.wait_for_log("server.log", " listens on ")
        killed.process.kill()
        killed.end()
        self.assert_ends(self.server(0), 2, rf"paceline-server: the run directory {self.run_dir} already holds a run "
                         r"\(server\.log\); choose another run\.out, or replace it with --force \(--existing replace\)")
        self.assert_ends(self.server(0, "--force", "cluster.start_timeout=10ms"), 1, "paceline-server: the run failed: .*")

    def test_a_run_directory_that_cannot_be_made(self):
        file = self.folder / "file"
        file.touch()
        out = f"run.out={file}/run"
        self.assert_ends(self.server(0, out), 1,
                         f"paceline-server: cannot make the run directory {file}/run: Not a directory")
        self.assert_ends(self.node(0, out), 1, f"paceline-worker: cannot create {file}/run: Not a directory")


class FileSizeLimits(DaemonTest):
    """No program is killed (SIGXFSZ) where its files may not grow: it says so."""

    def limited(self, program, *arguments):
        """Under a limit of no bytes at all."""
        return self.start("sh", "-c", 'ulimit -f 0; exec "$@"', "sh", harness.BIN / program, *arguments)

    def test_a_file_that_may_not_grow_is_an_error(self):
        self.assert_ends(self.limited("paceline-server", self.config, "--shard", 0), 1,
                         r"paceline-server: cannot write \S+: File too large")
        self.assertEqual(self.limited("paceline", "data", "synthesize", "--out", self.folder / "made").end(), 1)

    def test_a_node_whose_log_may_not_grow_goes_on_without(self):
        node = self.limited("paceline-worker", self.config, "--node", 0, "cluster.start_timeout=10ms")
        self.assertEqual(node.end(), 1)  # as with a log, since there is no server


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
        servers, nodes = self.start_run(*self.diverging, "train.on_nan=skip", "train.skips_max=1")
        self.assertEqual(servers[0].end(), 1)
        output = "\n".join(servers[0].errors())
        self.assertRegex(output, r"worker \d\.\d has skipped its iteration of clock \d+ \(train\.on_nan: skip\): .*; 1 of \d+ iterations are skipped so far")
        self.assertRegex(output, r"not all was learned from: \d+ of 400 iterations are skipped so far")
        self.assertRegex(output, r"version \d+ was not evaluated: the test loss is not finite")
        for i, node in enumerate(nodes):
            self.assertEqual(node.end(), 1, f"node {i}")
        summary = self.summary()
        # Training went on to its end; a final model without a loss is still no success.
        self.assertEqual(summary["status"], "failed")
        self.assertRegex(summary["reason"], r"the final model, version \d+ was not evaluated: the test loss is not finite")
        self.assertGreater(summary["skipped"], 0)
        self.assertEqual(summary["iterations"] + summary["skipped"], 400)
        self.assertIsNone(summary["test_accuracy"])

    def test_a_run_that_only_skips_fails(self):
        servers, nodes = self.start_run(*self.diverging, "train.on_nan=skip")
        for program in servers + nodes:
            self.assertEqual(program.end(), 1)
        self.assertRegex(self.summary()["reason"], r"\d+ of the last 100 gradients were skipped \(train\.on_nan: skip\), more than train\.skips_max allows")


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
        for _ in range(7):
            peer.send(noise.randbytes(60))
            peer.send(noise.randbytes(20), noise.randbytes(60))
        peer.send(b"\x0a\x04\x08\x63\x10\x01")  # a Join of version 99, whose answer says that all was taken
        self.assertIn(b"protocol version 99", peer.frame())
        with contextlib.suppress(ConnectionError):  # it may be broken before the last is said
            for _ in range(16):
                peer.send(b"\xff" + noise.randbytes(59))  # a type of field that there is not, whatever follows
        peer.wait_until_cut_off()
        peer.close()
        with self.subTest(seed=seed):
            self.assertEqual(servers[0].end(), 0)
            self.assert_end_quietly(nodes)
            self.assertEqual((self.summary()["status"], self.summary()["lost_nodes"]), ("ok", 0))
            self.assertGreaterEqual(self.summary()["malformed"], 16)


if __name__ == "__main__":
    harness.main()
