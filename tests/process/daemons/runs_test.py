"""Whole runs of every policy, and runs that are stopped. See harness.py."""

import json
import pathlib
import re
import signal

import harness
from harness import DaemonTest


class WholeRuns(DaemonTest):
    """A run of every policy, with everything that it leaves in its directory."""

    def run_policy(self, *overrides, iterations=200):
        self.configure(shards=2)
        servers, nodes = self.start_run(f"train.total_iterations={iterations}", *overrides)
        summary = self.assert_all_done(servers, nodes)
        self.assertEqual(summary["iterations"], iterations)
        for name in ("config.yaml", "server.log", "server-1.log", "worker-0.log", "worker-1.log", "phases.csv",
                     "curve.csv", "model.bin"):
            self.assertTrue((self.run_dir / name).stat().st_size > 0, name)
        report = self.paceline("report", self.run_dir)
        self.assertEqual((report.returncode, report.stderr), (0, ""))
        self.assertIn(f"{self.run_dir}: {'ok' if summary['status'] == 'ok' else 'invalid ('}", report.stdout)
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

    def test_bsp_then_asp(self):
        summary = self.run_policy("sync.policy=switch", "sync.stages=[{policy: bsp, lr_scale: 4, until: "
                                  "{progress: 0.5}}, {policy: asp}]")
        self.assertEqual((summary["policy"], summary["final_threshold"]), ("switch", None))
        self.assertEqual([(s["policy"], s["version"], s["threshold"]) for s in summary["switches"]],
                         [("bsp", 0, 0), ("asp", 25, None)])
        self.assertIn("policy bsp -> asp at version 25: threshold 0 -> inf, gradients are applied on arrival",
                      (self.run_dir / "server.log").read_text(encoding="utf-8"))

    def test_a_task_of_the_users_own(self):
        program = harness.BIN / "paceline-example-own-task"
        self.assert_ends(self.start(program, "--nonsense"), 2, f"{program.name}: .* \\(see {program.name} --help\\)")
        config = harness.SOURCE / "examples/own_task/linear.yaml"
        arguments = (f"run.out={self.run_dir}", f"cluster.endpoints=['{self.endpoints[0]}']")
        server = self.start(harness.BIN / "paceline-server", config, *arguments)
        node = self.start(program, config, "--node", 0, *arguments)
        self.assert_ends(server, 0)
        self.assert_ends(node, 0)
        self.assertLess(self.summary()["test_loss"], 0.01)
        self.assertIn("the run is over", (self.run_dir / "worker-0.log").read_text(encoding="utf-8"))
        self.assert_ends(self.start(program, config, "--node", 0, *arguments), 2,
                         f"{program.name}: the run directory .* already holds a run of node 0 .*")
        self.assert_ends(self.start(harness.BIN / "paceline", "evaluate", self.run_dir), 2,
                         f"paceline evaluate: {self.run_dir}: trained with a task of your own .*")


class Begins(DaemonTest):
    """train.init_from: a run that begins with another one's model."""

    def test_a_run_begins_with_a_model_file_and_says_what_fitted(self):
        self.assert_end_quietly(sum(self.start_run("train.total_iterations=200"), []))
        first, accuracy = self.run_dir / "model.bin", self.summary()["test_accuracy"]
        second = self.folder / "second"
        self.assert_end_quietly(sum(self.start_run("train.total_iterations=4", "train.optimizer.lr=1e-9", f"train.init_from={first}", f"run.out={second}"), []))
        self.assertIn(f"the parameters begin with {first}: 2 of 2 tensors fit", (second / "worker-0.log").read_text(encoding="utf-8"))
        self.assertEqual(json.loads((second / "summary.json").read_text(encoding="utf-8"))["test_accuracy"], accuracy)

    def test_a_model_file_that_is_not_there_ends_the_run_by_name(self):
        servers, nodes = self.start_run(f"train.init_from={self.folder}/none.bin")
        for program in servers + nodes:
            self.assertEqual(program.end(), 1)
        self.assertRegex(nodes[0].errors()[-1], r"train\.init_from: .*/none\.bin")


class Stops(DaemonTest):
    """Ends before the last iteration: wanted ones are ok, a signal is not."""

    def test_max_seconds_ends_well(self):
        servers, nodes = self.start_run("run.max_seconds=300ms")
        self.assert_end_quietly(servers + nodes)
        self.assertEqual(self.summary()["status"], "ok")
        self.assertGreaterEqual(self.summary()["wall_seconds"], 0.3)

    def test_target_accuracy_ends_well(self):
        servers, nodes = self.start_run("run.target_accuracy=0.01", "train.eval_every_clocks=5")
        self.assert_end_quietly(servers + nodes)
        self.assertEqual(self.summary()["status"], "ok")
        self.assertGreaterEqual(self.summary()["test_accuracy"], 0.01)

    def test_a_signal_at_the_authority_keeps_the_model(self):
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
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

    def test_a_terminal_that_closes_sends_sighup_to_all_and_again_and_the_model_is_kept(self):
        servers, nodes = self.start_training()
        nodes[0].send(signal.SIGSTOP)  # the orderly end has to wait for it
        for number in (signal.SIGHUP, signal.SIGTERM, signal.SIGHUP):  # as a service manager does
            servers[0].send(number)
            servers[0].wait_for_line("stopping")
            nodes[1].send(number)
        nodes[0].send(signal.SIGCONT)
        nodes[0].send(signal.SIGHUP)
        for program in servers + nodes:
            self.assertEqual(program.end(), 1, program.errors())
        self.assertEqual(self.summary()["status"], "stopped")
        self.assertTrue((self.run_dir / "model.bin").exists())

    def test_daemons_that_are_to_ignore_sighup_go_on(self):
        overrides = ("train.total_iterations=4000",)
        self.configure()
        programs = [self.start("env", "--ignore-signal=HUP", *command, *overrides)
                    for command in ((harness.BIN / "paceline-server", self.config),
                                    *((harness.BIN / "paceline-worker", self.config, "--node", i) for i in range(2)))]
        programs[0].wait_for_line(harness.PROGRESS.pattern)
        for program in programs:
            program.send(signal.SIGHUP)
        self.assert_all_done(programs[:1], programs[1:])

    def test_iterations_that_do_not_end_do_not_hold_up_who_is_to_end(self):
        # For how long a stop waits for them authority_stop_test says, on a clock of its own.
        servers, nodes = self.start_training("emulate.base_step=1h")
        for i, node in enumerate(nodes):
            node.send(signal.SIGTERM)
            self.assert_ends(node, 1, f"paceline-worker {i}: stopped by a signal")
        self.assert_ends(servers[0], 1, *(f"paceline-server: node {i} lost: stopped by a signal" for i in range(2)),
                         "paceline-server: every node was lost before its share was done")

    def test_a_second_signal_ends_a_daemon_at_once(self):
        servers, nodes = self.start_training()
        nodes[0].send(signal.SIGSTOP)  # its report never comes: the orderly end has to wait for the lease
        servers[0].send(signal.SIGTERM)
        servers[0].wait_for_line("stopping")
        servers[0].send(signal.SIGTERM)
        self.assert_ends(servers[0], 1, "paceline-server: stopping: stopped by a signal")
        self.assertFalse((self.run_dir / "summary.json").exists())
        nodes[0].send(signal.SIGKILL)


class SharedMemory(DaemonTest):
    """Payloads between daemons of one machine lie in memory that both see, unless that is switched off."""

    PAYLOAD = 4 * (3072 * 10 + 10)  # bytes of one gradient

    def whole_run(self, *overrides):
        self.configure(shards=2)
        servers, nodes = self.start_run("train.total_iterations=200", *overrides)
        self.assert_end_quietly(servers + nodes)
        self.assertEqual((self.summary()["status"], self.summary()["iterations"]), ("ok", 200))
        return self.summary()

    def test_one_machine_shares_its_memory(self):
        summary = self.whole_run()
        self.assertGreaterEqual(summary["bytes_shared"], 200 * self.PAYLOAD)
        self.assertLess(summary["bytes_pushed"], 200 * self.PAYLOAD / 100)
        self.assertIn("node 0 shares memory with shard 0", (self.run_dir / "server.log").read_text())
        self.assertIn("node 1 shares memory with server shard 1", (self.run_dir / "worker-1.log").read_text())
        self.assertIn("MB in ", self.paceline("report", self.run_dir).stdout)

    def test_off_sends_everything(self):
        summary = self.whole_run("cluster.shared_memory=off")
        self.assertEqual(summary["bytes_shared"], 0)
        self.assertGreaterEqual(summary["bytes_pushed"], 200 * self.PAYLOAD)

    @staticmethod
    def takes_huge_pages(pid):
        output = re.search(r"THP_enabled:\s*(\d)", pathlib.Path(f"/proc/{pid}/status").read_text(encoding="utf-8"))
        return output and output[1]

    def test_daemons_take_huge_pages_unless_they_are_told_not_to(self):
        self.configure()
        ours = self.takes_huge_pages("self")
        for word, expected in (("true", ours), ("false", ours and "0")):  # None: of a kernel before 5.0
            of_run = ("train.total_iterations=20", f"cluster.huge_pages={word}")
            programs = [self.server(0, *of_run), self.node(0, *of_run)]
            self.wait_for_log("worker-0.log", "joined 1 server(s)")  # and waits for the other node
            for program in programs:
                self.assertEqual(self.takes_huge_pages(program.pid), expected)
            self.assert_end_quietly(programs + [self.node(1, *of_run)])
            self.run_dir.rename(self.folder / f"run-with-{word}")

    def test_on_without_the_server_is_an_error(self):
        self.server(0, "cluster.shared_memory=off")
        node = self.node(0, "cluster.shared_memory=on")
        self.assert_ends(node, 1, r"paceline-worker 0: server shard 0 \(.*\): cluster.shared_memory is on, but no "
                                  "memory can be shared: the peer announces no memory")

    def test_where_no_segment_can_be_made_auto_says_so_once_and_sends(self):
        limited = ["prlimit", "--fsize=50000:50000"]  # of a file, and of a segment
        server = self.server(0, "train.total_iterations=50")
        node = self.start(*limited, harness.BIN / "paceline-worker", self.config, "--node", 0,
                          "train.total_iterations=50")
        other = self.node(1, "train.total_iterations=50")
        self.assert_ends(node, 0, r"paceline-worker 0: no memory is shared with servers of this machine: a shared segment "
                                  r"of \d+ bytes: files are limited to 50000")
        self.assert_end_quietly((server, other))
        self.assertGreater(self.summary()["bytes_pushed"], 20 * self.PAYLOAD)


if __name__ == "__main__":
    harness.main()
