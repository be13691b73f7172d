"""paceline.launch: what becomes of the servers and of the programs that it starts, with loops that need numpy alone."""

import os
import signal
import socket

import harness
from foreign import PYTHON, ForeignTest, needs


@needs("numpy")
class Launch(ForeignTest):
    """Programs that fail, end early or are killed; signals; an earlier run's files; what is refused."""

    def loop_until(self, condition):
        """A program whose loop goes on while that is so."""
        loop = self.folder / "loop.py"
        loop.write_text("import numpy, paceline, sys\n"
                        "from paceline.worker import node_of\n"
                        "with paceline.Worker(sys.argv[1], node_of(None)) as worker:\n"
                        "    worker.add_tensor('w', (1,)); worker.start(numpy.zeros(1, numpy.float32))\n"
                        "    for round in worker:\n"
                        f"        assert {condition}, 'it has had enough'\n"
                        "        round.gradient[:] = 0; worker.finish()\n", encoding="utf-8")
        return loop

    def test_a_program_that_fails_is_named_and_the_run_goes_on(self):
        self.configure_loop("optimizer: {kind: sgd, lr: 1}, batch_size: 1, total_iterations: 60")
        release = self.folder / "release"  # a fifo: node 0 goes on when the other has been named
        os.mkfifo(release)
        loop = self.loop_until(f"round.clock < 5 or worker.node == 0 and (round.clock > 5 or open('{release}').close() is None)")
        launched = self.launch(loop, self.config)
        launched.wait_for_line("paceline.launch: node 1 has ended with status 1")
        release.open("w").close()
        self.assertEqual(launched.end(), 1)
        self.assertEqual(self.summary()["status"], "ok")

    def test_values_of_the_command_line_count_for_servers_and_programs(self):
        self.configure_loop("optimizer: {kind: sgd, lr: 1}, batch_size: 1, total_iterations: 1000000")
        other = ("paceline.Worker(None, 0, text=open(sys.argv[1]).read(), overrides=['run.seed=1', f'run.out=other{worker.node}'])"
                 ".value('run.seed')")
        threads = os.environ.get("OMP_NUM_THREADS") or str(max(1, len(os.sched_getaffinity(0)) // 3))
        shares = f"__import__('os').environ['OMP_NUM_THREADS'] == '{threads}'"
        loop = self.loop_until(f"{shares} and (round.samples, worker.value('run.seed')) == (4, '7') and (round.clock > 0 or {other} == '1')")
        (self.folder / "lr=1").mkdir()
        loop.rename(self.folder / "lr=1/loop.py")
        launched = self.launch("train.batch_size=4", "train.total_iterations=20", "--existing", "replace", "run.seed=7", "cluster.nodes=3",
                               "lr=1/loop.py", self.config, cwd=self.folder)
        self.assertEqual(launched.end(), 0, launched.errors())
        self.assertEqual((self.summary()["iterations"], self.summary()["workers"]), (20, 3))
        self.assertIn(f"paceline.launch: the run in {self.run_dir} is over; paceline report {self.run_dir} says how it went", launched.errors())

    def test_a_program_that_ends_before_the_run_is_named(self):
        self.configure_loop("optimizer: {kind: sgd, lr: 1}, batch_size: 1, total_iterations: 60")
        release = self.folder / "release"
        os.mkfifo(release)
        loop = self.loop_until(f"round.clock != 5 or open('{release}').close() is None")
        loop.write_text(loop.read_text(encoding="utf-8").replace(
            "for round in worker:", "for round in worker:\n        if round.clock == worker.node * 5 > 0: break"), encoding="utf-8")
        launched = self.launch(loop, self.config)
        launched.wait_for_line("^paceline.launch: node 1 has ended before the run$")
        release.open("w").close()
        self.assertEqual(launched.end(), 0)
        self.assertEqual(self.summary()["status"], "ok")
        self.assertEqual(launched.errors()[-2], "paceline.launch: node 1 has ended before the run")
        self.assertNotIn("lost before", "\n".join(launched.errors()))

    def test_a_program_that_fails_before_training_ends_the_run_by_name_and_the_mended_one_is_taken(self):
        self.configure_loop("optimizer: {kind: sgd, lr: 1}, batch_size: 1, total_iterations: 60")  # start_timeout: 120s
        loop = self.loop_until("True")
        text = loop.read_text(encoding="utf-8")
        loop.write_text("import os\nif os.environ['RANK'] == '1': 1 / 0\n" + text, encoding="utf-8")
        launched = self.launch(loop, self.config)
        self.assertEqual(launched.end(), 1)
        self.assertIn("paceline.launch: node 1 has ended with status 1", launched.errors())
        self.assertEqual((self.summary()["status"], self.summary()["reason"]),
                         ("failed", "node 1 has not joined: its program has ended with status 1"))
        # A mistake in its first step leaves no more than one before.
        loop.write_text(text.replace("for round in worker:", "for round in worker:\n        1 / 0"), encoding="utf-8")
        self.assertEqual(self.launch(loop, self.config).end(), 1)
        self.assertEqual((self.summary()["reason"], self.summary()["final_version"]), ("every node was lost before its share was done", 0))
        loop.write_text(text, encoding="utf-8")
        launched = self.launch(loop, self.config)
        self.assertEqual(launched.end(), 0, launched.errors())

    def test_the_launcher_waits_for_no_torch(self):
        asked = ("import runpy, sys; sys.modules['torch'] = None; sys.argv[1:] = ['--help']; "
                 "runpy.run_module('paceline.torch.launch', run_name='__main__')")
        self.assert_ends(self.start(PYTHON, "-c", asked), 0)

    def test_where_no_program_joins_the_run_has_failed(self):
        self.configure_loop("optimizer: {kind: sgd, lr: 1}, batch_size: 1, total_iterations: 60")
        for text, status in (("1 / 0", 1), ("", 0)):
            with self.subTest(text):
                (self.folder / "fails.py").write_text(text, encoding="utf-8")
                self.assertEqual(self.launch(self.folder / "fails.py").end(), 1)
                self.assertEqual(self.summary()["status"], "failed")
                self.assertRegex(self.summary()["reason"], rf"^node \d has not joined: its program has ended with status {status}$")

    def test_a_signal_while_programs_still_import_ends_them_at_once(self):
        self.configure_loop("optimizer: {kind: sgd, lr: 1}, batch_size: 1, total_iterations: 60")
        never = self.folder / "never"
        os.mkfifo(never)
        (self.folder / "imports.py").write_text("import os, sys\nif os.environ['RANK'] == '1': sys.stderr.write('imports\\n')\n"
                                                f"open('{never}')", encoding="utf-8")
        launched = self.launch(self.folder / "imports.py")
        self.wait_for_log("server.log", " listens on ")
        launched.wait_for_line("^imports$")  # all have been started
        launched.send(signal.SIGINT)
        self.assertEqual(launched.end(), 1)
        self.assertEqual(self.summary()["status"], "stopped")
        output = [line for line in launched.errors() if not line.startswith("paceline-server: ")]
        self.assertEqual(output, ["imports", f"paceline.launch: the run in {self.run_dir} is over; paceline report {self.run_dir} says how it went"])

    def stand_in_server(self, text):
        """A folder of programs, whose paceline-server is that."""
        (self.folder / "paceline").symlink_to(harness.BIN / "paceline")
        (self.folder / "paceline-server").write_text(f"#!{PYTHON}\n{text}", encoding="utf-8")
        (self.folder / "paceline-server").chmod(0o755)

    def test_programs_have_their_time_behind_the_end_of_the_servers_however_long_those_write(self):
        self.configure_loop("optimizer: {kind: sgd, lr: 1}, batch_size: 1, total_iterations: 60")
        writes, output = self.folder / "writes", "file=sys.stderr, flush=True)"
        os.mkfifo(writes)
        self.run_dir.mkdir()
        self.stand_in_server(f"import signal, sys\ndef stop(*_):\n    print('told', {output}\n    open('{writes}').close()\n"
                             f"    print('has written', {output}\n    sys.exit(1)\nsignal.signal(signal.SIGTERM, stop)\n"
                             f"open('{self.run_dir}/server.log', 'w').write('training begins')\nsignal.pause()\n")
        (self.folder / "waits.py").write_text(
            f"import signal, sys\ntry:\n    print('waits', {output}\n    signal.pause()\n"
            f"except KeyboardInterrupt:\n    print('is interrupted', {output}\n", encoding="utf-8")
        launched = self.start(PYTHON, "-c", "import sys; from paceline import launch; launch._GRACE = 0.001; sys.exit(launch.main())",
                              "--programs", self.folder, self.config, "cluster.nodes=1", self.folder / "waits.py")
        launched.wait_for_line("waits")
        self.wait_for_log("server.log", "training begins")
        launched.send(signal.SIGINT)
        launched.wait_for_line("told")
        writes.open("w").close()
        self.assertEqual(launched.end(), 1)
        self.assertEqual(launched.errors(), ["waits", "told", "has written", "is interrupted"])

    def test_a_server_is_told_once_and_ended_by_the_second_signal(self):
        self.configure_loop("optimizer: {kind: sgd, lr: 1}, batch_size: 1, total_iterations: 60", cluster="heartbeat: 10ms")
        (self.folder / "fails.py").write_text("1 / 0", encoding="utf-8")
        self.stand_in_server("import signal, sys\nsignal.signal(signal.SIGTERM, lambda *_: print('told', file=sys.stderr, flush=True))\n"
                             "while True:\n    signal.pause()\n")
        launched = self.launch("--programs", self.folder, self.folder / "fails.py")
        launched.wait_for_line("told")
        launched.send(signal.SIGINT)
        launched.send(signal.SIGTERM)  # two of the same at once would be one
        self.assertEqual(launched.end(), 1)
        self.assertEqual(launched.errors().count("told"), 1)
        self.assertEqual(launched.errors()[-1], "paceline.launch: server 0 has ended with SIGKILL")

    def test_an_earlier_run_is_kept_or_replaced_as_is_said(self):
        self.configure_loop("optimizer: {kind: sgd, lr: 1}, batch_size: 1, total_iterations: 40")
        loop = self.loop_until("True")
        text = loop.read_text(encoding="utf-8")
        loop.write_text(text.replace("for round in worker:", "for round in worker:\n        if round.clock == 5: sys.exit(3)"), encoding="utf-8")
        self.assertEqual(self.launch(loop, self.config).end(), 1)  # a run that has failed: others are never replaced
        refused = self.launch(loop, self.config)
        self.assertEqual(refused.end(), 2)
        self.assertRegex(refused.errors()[-2], r"^paceline-server: .* \(server\.log\); choose another run\.out, or replace it with --force "
                         r"\(--existing replace\)$")
        self.assertEqual(refused.errors()[-1], "paceline.launch: server 0 has ended with status 2")  # no node's traceback after it
        self.assertFalse([line for line in refused.errors() if "is over" in line])
        loop.write_text(text, encoding="utf-8")
        self.assertEqual(self.launch("--existing", "replace", loop, self.config).end(), 0)
        self.assertEqual((self.summary()["status"], self.summary()["iterations"]), ("ok", 40))
        refused = self.launch("--existing", "replace", loop, self.config)
        self.assertEqual(refused.end(), 2)
        self.assertRegex(refused.errors()[-1], f"paceline.launch: a run that has ended well is not replaced: remove {self.run_dir}, .*")

    def test_a_run_that_does_not_go_on_is_refused_as_by_its_server(self):
        self.configure_loop("optimizer: {kind: sgd, lr: 1}, batch_size: 1, total_iterations: 40")
        every, loop = ("--existing", "continue", "checkpoint.every_clocks=5"), self.loop_until("True")
        self.assertEqual(self.launch(*every, loop, self.config).end(), 0)
        for status, overrides in ((4, ()), (5, ("train.total_iterations=80", "train.optimizer.lr=2"))):
            refused = self.launch(*every, *overrides, loop, self.config)
            self.assertEqual(refused.end(), status, refused.errors())
            self.assertEqual(refused.errors()[-1], f"paceline.launch: server 0 has ended with status {status}")  # no node's traceback
            (self.run_dir / "summary.json").unlink(missing_ok=True)

    def test_who_was_lost_in_an_earlier_part_of_a_run_is_not_lost_in_this_one(self):
        self.configure_loop("optimizer: {kind: sgd, lr: 1}, batch_size: 1, total_iterations: 40")
        every = ("--existing", "continue", "checkpoint.every_clocks=5")
        self.assertEqual(self.launch(*every, self.loop_until("worker.clock < 8 or __import__('os')._exit(9)"), self.config).end(), 1)
        self.assertTrue(lost := sorted(self.summary()["lost"]))
        loop = self.loop_until("True")
        text = loop.read_text(encoding="utf-8")
        loop.write_text("import os\nif os.environ['RANK'] == '1': 1 / 0\n" + text, encoding="utf-8")
        self.assertEqual(self.launch(*every, loop, self.config).end(), 1)
        self.assertEqual(self.summary()["reason"], "node 1 has not joined: its program has ended with status 1")
        loop.write_text(text, encoding="utf-8")
        launched = self.launch(*every, loop, self.config)
        self.assertEqual(launched.end(), 0, launched.errors())
        self.assertEqual((self.summary()["status"], sorted(self.summary()["lost"])), ("ok", lost))
        self.assertNotIn("lost before", "\n".join(launched.errors()))

    def test_nothing_is_advised_where_a_server_lives(self):
        self.configure_loop("optimizer: {kind: sgd, lr: 1}, batch_size: 1, total_iterations: 40")
        server = self.server(0)
        self.wait_for_log("server.log", " listens on ")
        refused = self.launch("--existing", "replace", self.loop_until("True"), self.config)
        self.assertEqual(refused.end(), 2)
        self.assertRegex(refused.errors()[-2], r"paceline-server: .* is that of another server of shard 0, .*")
        self.assertEqual(refused.errors()[-1], "paceline.launch: server 0 has ended with status 2")
        server.send(signal.SIGKILL)

    def test_a_run_whose_programs_are_killed_has_failed_also_where_their_files_are_elsewhere(self):
        for where in ("here", "elsewhere"):
            with self.subTest(where):
                self.run_dir = self.folder / where
                self.configure_loop("optimizer: {kind: sgd, lr: 1}, batch_size: 1, total_iterations: 1000000", cluster="lease: 600s")
                loop = self.loop_until("worker.clock < 5 or __import__('os').kill(__import__('os').getpid(), 9)")
                if where == "elsewhere":
                    loop.write_text(loop.read_text(encoding="utf-8").replace(
                        "node_of(None))", f"node_of(None), overrides=['run.out={self.folder}/theirs'])"), encoding="utf-8")
                with socket.create_server(("127.0.0.1", 0)) as free:  # over tcp the servers notice later
                    endpoint = f"tcp://127.0.0.1:{free.getsockname()[1]}"
                launched = self.launch(f"cluster.endpoints=['{endpoint}']", loop, self.config)
                self.assertEqual(launched.end(), 1)
                self.assertEqual(self.summary()["status"], "failed", launched.errors())
                self.assertNotIn("paceline.launch: no program is left, and the servers end", launched.errors())

    def test_what_cannot_be_launched_is_refused(self):
        self.configure_loop("optimizer: {kind: sgd, lr: -1}, batch_size: 1, total_iterations: 60")
        self.assert_ends(self.launch("nothing.py"), 2, r"paceline\.launch: .*train\.optimizer\.lr: .*, got .*, expected .*")
        self.configure_loop("optimizer: {kind: sgd, lr: 1}, batch_size: 1, total_iterations: 60")
        self.assert_ends(self.launch("train.no=1", "nothing.py"), 2, r"paceline\.launch: .*train\.no: .*")
        self.assert_ends(self.launch("cluster.threads_per_node=2", "nothing.py"), 2,
                         r"paceline\.launch: cluster\.threads_per_node: a training loop is one worker, got 2, expected 1")
        self.assert_ends(self.launch("run.seed=1"), 2, r"paceline\.launch: program: got none after key\.path=value, expected one")
        self.assert_ends(self.launch("nothing.py"), 2, r"paceline\.launch: nothing\.py: no such program")

    def test_of_a_run_that_never_began_no_report_is_promised(self):
        self.configure_loop("optimizer: {kind: sgd, lr: 1}, batch_size: 1, total_iterations: 60")
        with socket.create_server(("127.0.0.1", 0)) as taken:
            endpoint = f"tcp://127.0.0.1:{taken.getsockname()[1]}"
            launched = self.launch(f"cluster.endpoints=['{endpoint}']", "cluster.start_timeout=100ms", self.loop_until("True"), self.config)
            self.assertEqual(launched.end(), 1)
        self.assertIn("paceline.launch: server 0 has ended with status 1", launched.errors())
        self.assertEqual([line for line in launched.errors() if "is over" in line], [])


if __name__ == "__main__":
    harness.main()
