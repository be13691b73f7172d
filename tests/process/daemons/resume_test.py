"""Checkpoints while a run trains, and runs whose servers were killed and go on from one. See harness.py."""

import os
import re
import shutil
import signal

import harness
from calm_runs import SAVED_ITERATIONS, STAGES, SUMMING_STAGES, CalmRuns
from harness import DaemonTest, ScriptTest, nodes_of

EVERY = 20


class Checkpoints(DaemonTest):
    """What is on disk while a run trains, and what a fault there costs."""

    SAVES = (f"train.total_iterations={SAVED_ITERATIONS}", f"checkpoint.every_clocks={EVERY}")

    def checkpoints(self):
        """Those with a manifest."""
        return sorted(path.parent.name for path in (self.run_dir / "checkpoint").glob("*/manifest"))

    def train_to_the_end(self, *overrides):
        servers, nodes = self.start_run(*overrides)
        self.assert_succeed(servers + nodes)
        return servers

    def test_a_run_leaves_as_many_whole_checkpoints_as_are_to_be_kept(self):
        for shards in (1, 2):
            with self.subTest(shards=shards):
                shutil.rmtree(self.run_dir, ignore_errors=True)
                self.configure(shards)
                self.train_to_the_end(*self.SAVES, "checkpoint.keep=3")
                self.assertEqual(self.summary()["checkpoints_failed"], 0)
                self.assertGreaterEqual(self.summary()["checkpoints"], 1)
                kept = self.checkpoints()
                self.assertTrue(1 <= len(kept) <= 3, kept)
                files = {path.name for path in (self.run_dir / "checkpoint" / kept[-1]).iterdir()}
                self.assertEqual(files, {"manifest"} | {f"shard-{k}" for k in range(shards)})

    def test_a_folder_that_cannot_be_made_costs_checkpoints_and_nothing_else(self):
        self.run_dir.mkdir()
        servers, nodes = self.start_run(*self.SAVES, "train.total_iterations=100000000", "run.max_seconds=4s")
        self.wait_for_log("server.log", "training begins")
        shutil.rmtree(self.run_dir / "checkpoint", ignore_errors=True)
        (self.run_dir / "checkpoint").write_text("in the way", encoding="utf-8")
        servers[0].wait_for_line(r"no checkpoint of version \d+ of generation 1: shard 0: cannot make .*; the newest is"
                                 r"|no checkpoint of version \d+ of generation 1: shard 0: .*; there is none yet")
        self.assert_succeed(servers + nodes)
        self.assertGreaterEqual(self.summary()["checkpoints_failed"], 1)
        self.assertEqual(self.summary()["status"], "ok")

    def test_an_earlier_runs_checkpoints_are_not_passed_by_and_force_removes_them(self):
        self.train_to_the_end(*self.SAVES)
        for file in self.run_dir.iterdir():
            if file.is_file():
                file.unlink()
        self.assert_ends(self.server(0), 2, r"paceline-server: the run directory .* already holds a run's checkpoints "
                         r"\(checkpoint\); choose another run.out, replace them with --force .*, or go on .* --resume .*")
        servers, nodes = self.start_run("train.total_iterations=40", "--force")
        self.assert_succeed(servers + nodes)
        self.assertFalse((self.run_dir / "checkpoint").exists())


class Resume(CalmRuns):
    """kill -9 of servers in the middle of a run, then all daemons again with --resume: the same bits in the end."""

    def setUp(self):
        super().setUp()
        self.total = f"train.total_iterations={SAVED_ITERATIONS}"
        self.saves = (self.total, f"checkpoint.every_clocks={EVERY}")

    def killed(self, *overrides, written=2):
        """A run whose processes are all killed once so many checkpoints are written; again where it had ended before."""
        for _ in range(8):
            servers, nodes = self.start_run(*self.saves, *overrides)
            self.wait_for_written(written)
            for program in servers + nodes:
                program.send(signal.SIGKILL)
            for program in servers + nodes:
                program.end()
            if not (self.run_dir / "summary.json").exists():
                return
            self.assertEqual(self.summary()["status"], "ok")
            shutil.rmtree(self.run_dir)
        self.fail("the run has ended each time before it was killed")

    def resume(self, *overrides):
        servers = [self.server(k, "--resume", *self.saves, *overrides) for k in range(self.shards)]
        nodes = [self.node(i, "--resume", *self.saves, *overrides) for i in range(nodes_of(overrides))]
        return servers, nodes

    def assert_resumes_to(self, model, *overrides):
        servers, nodes = self.resume(*overrides)
        self.assert_succeed(servers + nodes)
        self.assertEqual((self.run_dir / "model.bin").read_bytes(), model, "other bits than a run never killed")
        summary = self.summary()
        self.assertEqual((summary["status"], summary["iterations"]), ("ok", SAVED_ITERATIONS))
        self.assertEqual(summary["resumed_from_version"] % EVERY, 0)
        return summary

    def test_a_run_whose_processes_were_all_killed_ends_in_the_same_bits(self):
        for shards in (1, 2):
            with self.subTest(shards=shards):
                shutil.rmtree(self.run_dir, ignore_errors=True)
                self.configure(shards)
                model = self.calm_model(self.total)
                self.killed()
                summary = self.assert_resumes_to(model)
                self.assertEqual(summary["generation"], 2)
                log = (self.run_dir / "server.log").read_text(encoding="utf-8")
                self.assertIn("training begins", log)  # the log of before is there, too
                self.assertIn("training goes on at version", log)

    def test_of_an_all_reduce_all_nodes_go_on_from_what_node_0_had_or_each_of_them(self):
        reduces = ("exchange.kind=allreduce", "train.optimizer.kind=adam")
        model = self.calm_model(self.total, *reduces)
        for shares in ("false", "true"):
            with self.subTest(shares=shares):
                shutil.rmtree(self.run_dir, ignore_errors=True)
                given = (*reduces, f"exchange.shard_optimizer={shares}")
                self.killed(*given)
                self.assertEqual(self.assert_resumes_to(model, *given)["exchange"], "allreduce")

    # Where the layers of a pipeline are cut a resume may change: a layer with parameters goes over to the other stage.
    CUT_ANEW = ("pipeline.balance=[5, 1]",)

    def parameters_of_stages(self, *overrides):
        """As `paceline schedule` says."""
        printed = self.paceline("schedule", self.config, *self.saves, *overrides)
        return re.findall(r"^stage \d+: layers .*, (\d+) parameters, ", printed.stdout, re.M)

    def test_of_a_pipeline_all_stages_go_on_from_one_version(self):
        for shards in (1, 2):
            with self.subTest(shards=shards):
                shutil.rmtree(self.run_dir, ignore_errors=True)
                self.configure(shards)
                model = self.calm_model(self.total, *STAGES)
                self.killed(*STAGES)
                given = (*STAGES, *self.CUT_ANEW[:shards - 1])
                self.assertEqual(self.parameters_of_stages(*given), ["24656", "90"] if shards == 2 else ["24584", "162"])
                self.assertEqual(self.assert_resumes_to(model, *given)["pipeline"]["stages"], 2)
                self.assertIn(f"  balance: {'[5, 1]' if shards == 2 else 'time'}\n", (self.run_dir / "config.yaml").read_text(encoding="utf-8"))

    def test_of_stages_that_sum_by_themselves_each_goes_on_from_its_own_state(self):
        reduces = (*SUMMING_STAGES, "train.optimizer.kind=adam")
        model = self.calm_model(self.total, *reduces)
        self.assertNotEqual(self.parameters_of_stages(*reduces, *self.CUT_ANEW), self.parameters_of_stages(*reduces))
        for shares in ("false", "true"):
            with self.subTest(shares=shares):
                shutil.rmtree(self.run_dir, ignore_errors=True)
                given = (*reduces, f"exchange.shard_optimizer={shares}")
                self.killed(*given)
                summary = self.assert_resumes_to(model, *given, *self.CUT_ANEW)
                self.assertEqual((summary["exchange"], summary["nodes"]), ("allreduce", 4))
                self.assertGreater(summary["bytes_reduced"], 0)

    def test_an_all_reduce_that_is_stopped_goes_on_from_its_last_version(self):
        self.stopped_and_resumed("exchange.kind=allreduce", "train.optimizer.kind=adam")

    # Rounds of two mini-batches: what is learned depends on each worker's own momentum or moments, and on the servers'.
    ROUNDS = ("train.local_steps=2", "train.inner_optimizer.lr=0.01", "sync.combine=mean", "train.optimizer.kind=momentum",
              "train.optimizer.lr=0.7", "train.optimizer.momentum=0.9", "train.optimizer.nesterov=true")

    # A part of each delta leaves behind the first of two steps, and what the second adds to it with the next round's. Under
    # bsp, a stage that does not end: so it does at the same places in every run.
    IN_FRAGMENTS = ("exchange.hidden=true", "exchange.fragments=2", "sync.policy=switch",
                    "sync.stages=[{policy: bsp, until: {train_loss: 1.0e-9}}, {policy: ssp, threshold: 1}]")

    def test_inner_and_outer_optimizers_of_rounds_go_on_where_they_were(self):
        for inner, exchange in (("momentum", ()), ("adam", ()), ("momentum", self.IN_FRAGMENTS)):
            with self.subTest(inner=inner, exchange=exchange):
                shutil.rmtree(self.run_dir, ignore_errors=True)
                rounds = (*self.ROUNDS, f"train.inner_optimizer.kind={inner}", *exchange)
                model = self.calm_model(self.total, *rounds)
                self.killed(*rounds)
                summary = self.assert_resumes_to(model, *rounds)
                log = (self.run_dir / "worker-0.log").read_text(encoding="utf-8")
                self.assertIn(f"inner optimizer's state of version {summary['resumed_from_version']}", log)

    def test_a_run_in_fragments_that_is_stopped_goes_on_with_what_it_had_not_sent(self):
        self.stopped_and_resumed(*self.ROUNDS, *self.IN_FRAGMENTS)
        log = (self.run_dir / "worker-0.log").read_text(encoding="utf-8")
        self.assertRegex(log, "worker 0.1 goes on at clock [1-9].* with what its last round had not sent of version")

    def stopped_and_resumed(self, *rounds):
        model = self.calm_model(self.total, *rounds)
        self.assert_succeed(sum(self.start_run(self.total, *rounds, "run.max_seconds=100ms"), []))
        self.assertEqual(self.summary()["checkpoints"], 1)
        for program in [start(k, "--resume", self.total, *rounds)
                        for start, k in ((self.server, 0), (self.node, 0), (self.node, 1))]:
            self.assertEqual(program.end(), 0, program.errors())
        self.assertEqual((self.run_dir / "model.bin").read_bytes(), model, "other bits than a run never stopped")

    def test_bsp_then_asp_goes_on_from_either_side_of_the_switch(self):
        iterations = 2 * SAVED_ITERATIONS
        for version in (30, iterations * 9 // 40):
            with self.subTest(switches_at=version):
                shutil.rmtree(self.run_dir, ignore_errors=True)
                stages = ("sync.policy=switch",
                          f"sync.stages=[{{policy: bsp, lr_scale: 4, until: {{version: {version}}}}}, {{policy: asp}}]",
                          f"train.total_iterations={iterations}")
                self.killed(*stages, written=3)
                servers, nodes = self.resume(*stages)
                self.assert_succeed(servers + nodes)
                summary = self.summary()
                self.assertEqual((summary["status"], summary["iterations"]), ("ok", iterations))
                self.assertEqual(summary["resumed_from_version"] > version, version == 30)
                self.assertEqual([(s["policy"], s["version"]) for s in summary["switches"]],
                                 [("bsp", 0), ("asp", version)])
                self.assertIsNone(summary["final_threshold"])

    def test_a_truncated_newest_checkpoint_is_passed_over(self):
        self.configure(shards=2)
        model = self.calm_model(self.total)
        self.killed()
        newest = sorted((self.run_dir / "checkpoint").glob("*/manifest"))[-1].parent
        os.truncate(newest / "shard-1", (newest / "shard-1").stat().st_size - 1)
        summary = self.assert_resumes_to(model)
        self.assertLess(summary["resumed_from_version"], int(newest.name.split("-v")[1]))
        self.assertIn("passed over the checkpoint of version", (self.run_dir / "server.log").read_text(encoding="utf-8"))

    def test_without_a_checkpoint_the_error_says_where_it_looked(self):
        self.run_dir.mkdir()
        self.assert_ends(self.server(0, "--resume"), 3, rf"paceline-server: no checkpoint to resume from in "
                         rf"{self.run_dir}/checkpoint: it holds none that is whole; a run writes them with checkpoint\.every_clocks or checkpoint\.every")

    def test_a_resume_with_another_configuration_names_the_keys_once_with_both_values(self):
        endless = "train.total_iterations=100000000"  # so that it cannot end before it is killed
        self.killed(endless)
        for one in (self.run_dir / "checkpoint").glob("g*"):
            if not (one / "manifest").exists():
                shutil.rmtree(one)  # of what was being written nobody knows the keys
        server = self.server(0, "--resume", *self.saves, endless, "train.batch_size=16", "train.optimizer.lr=0.5")
        self.assertEqual(server.end(), 5)
        printed = server.errors()[-1]
        self.assertRegex(printed, r"it is of another configuration: train\.optimizer\.lr: got 0\.5, expected 0\.01; train\.batch_size: got 16, expected 8$")
        self.assertEqual(printed.count("train.batch_size"), 1)
        self.assertNotRegex("\n".join(server.errors()), "fingerprint")

    def test_a_signal_to_another_server_or_to_all_daemons_saves_the_last_version_too(self):
        self.configure(shards=2)
        rare = "checkpoint.every_clocks=1000"  # then, so that no other is
        for whom in ("shard 1", "all"):
            with self.subTest(whom=whom):
                shutil.rmtree(self.run_dir, ignore_errors=True)
                servers, nodes = self.start_run(*self.saves)
                self.wait_for_written(1)  # so there is something to save: a node may be signalled before it has joined
                for program in servers[1:] if whom == "shard 1" else servers[1:] + nodes + servers[:1]:
                    program.send(signal.SIGTERM)
                for program in servers + nodes:
                    self.assertEqual(program.end(), 1, program.errors())
                self.assertIn("paceline-server 1: stopping: stopped by a signal; the authority ends the run for this "
                              "shard, too", servers[1].errors())
                stopped_at = self.summary()["final_version"]
                if whom == "shard 1":
                    self.assertEqual((self.summary()["status"], self.summary()["reason"]),
                                     ("stopped", "shard 1: stopped by a signal"))
                servers, nodes = self.resume(rare)
                self.assert_succeed(servers + nodes)
                summary = self.summary()
                self.assertEqual((summary["resumed_from_version"], summary["iterations"]), (stopped_at, SAVED_ITERATIONS))

    def test_a_killed_shard_ends_the_run_which_says_how_to_go_on(self):
        self.configure(shards=2)
        model = self.calm_model(self.total)
        servers, nodes = self.start_run(*self.saves)
        self.wait_for_written(1)
        servers[1].send(signal.SIGKILL)
        self.assertEqual(servers[0].end(), 1)
        self.assertRegex(servers[0].errors()[-1],
                         r"start all servers again with --resume to go on from the checkpoint of version \d+")
        for node in nodes:
            node.end()
        self.assert_resumes_to(model)

    def test_a_run_that_has_ended_is_extended_to_the_bits_of_one_that_was_as_long_from_the_start(self):
        model = self.calm_model(self.total)
        half = f"train.total_iterations={SAVED_ITERATIONS // 2}"
        self.assert_succeed(sum(self.start_run(*self.saves, half), []))
        self.assert_ends(self.server(0, "--resume", *self.saves, half), 4,
                         rf"paceline-server: the run in .* has ended well \(summary.json says ok\), with all {SAVED_ITERATIONS // 2} "
                         r"iterations: there is nothing to resume; a larger train\.total_iterations extends it")
        servers, nodes = self.resume()
        self.assert_succeed(servers + nodes)
        self.assertEqual((self.run_dir / "model.bin").read_bytes(), model)
        self.assertIn(self.total.split(".")[1].replace("=", ": "), (self.run_dir / "config.yaml").read_text(encoding="utf-8"))

    def test_a_run_that_ended_by_time_goes_on_though_nothing_else_was_saved(self):
        self.assert_succeed(sum(self.start_run("run.max_seconds=300ms"), []))
        done = self.summary()
        self.assertEqual((done["status"], done["checkpoints"]), ("ok", 1))
        again = self.server(0, "--resume", "run.max_seconds=300ms")
        self.assertEqual(again.end(), 4)
        self.assertRegex(again.errors()[-1], r"after \d+\.\d\d s of training: run\.max_seconds, which is of all sessions together, leaves it nothing")
        longer = ("--resume", f"train.total_iterations={done['iterations'] + 400}", "run.max_seconds=null")
        self.assert_succeed([self.server(0, *longer), self.node(0, *longer), self.node(1, *longer)])
        self.assertEqual(self.summary()["resumed_from_version"], done["final_version"])
        self.assertEqual(self.summary()["iterations"], done["iterations"] + 400)

    def test_other_training_data_are_refused(self):
        self.killed()
        other = self.folder / "other"
        self.assertEqual(self.paceline("data", "synthesize", "--out", other, "--train", 400, "--test", 100, "--seed", 9).returncode, 0)
        server = self.server(0, "--resume", *self.saves)
        node = self.node(0, "--resume", *self.saves, f"data.path={other}")
        self.assertEqual(node.end(), 1)
        self.assertRegex("\n".join(node.errors()), r"data fingerprint 0x\w{16}, expected 0x\w{16} as the checkpoint has: go on with the "
                                                   r"training data of the run")
        server.send(signal.SIGTERM)
        self.assertEqual(server.end(), 1)
        servers, nodes = self.resume()  # nothing of it is lost
        self.assert_succeed(servers + nodes)

    def test_a_node_that_does_not_come_back_is_lost_and_the_run_goes_on(self):
        self.killed()
        timeout = "cluster.start_timeout=" + ("10s" if harness.SANITIZED else "2s")  # a process may take seconds to start
        server = self.server(0, "--resume", *self.saves, timeout)
        node = self.node(0, "--resume", *self.saves, timeout)
        self.assertEqual(server.end(), 0, server.errors())
        self.assertEqual(node.end(), 0, node.errors())
        self.assertEqual(server.errors(), ["paceline-server: node 1 lost: it has not joined the resumed run in time"])
        summary = self.summary()
        self.assertEqual((summary["status"], summary["lost_nodes"], summary["iterations"]), ("ok", 1, SAVED_ITERATIONS))


class ResumeByScript(ScriptTest):
    """scripts/run_local.sh --resume."""

    def test_run_local_goes_on_with_a_run_that_was_killed(self):
        script = self.run_local(f"train.total_iterations={SAVED_ITERATIONS}", f"checkpoint.every_clocks={EVERY}")
        self.wait_for_written(1)
        script.send(signal.SIGKILL)
        script.end()
        self.wait_for_no_children(script)
        script = self.script("run_local.sh", "--resume", self.run_dir, "--bin", harness.BIN)
        self.assertEqual(script.end(), 0, script.errors())
        self.assertEqual(self.summary()["generation"], 2)
        self.assertEqual(self.summary()["iterations"], SAVED_ITERATIONS)

    def test_what_it_cannot_resume_it_says(self):
        script = self.script("run_local.sh", "--resume", self.folder / "none", "--bin", harness.BIN)
        self.assertEqual((script.end(), script.errors()),
                         (3, [f"run_local: {self.folder}/none/config.yaml is not there: no run to resume"]))
        script = self.script("run_local.sh", self.config, "--resume", self.run_dir, "--bin", harness.BIN)
        self.assertEqual(script.end(), 2)

    def test_one_command_begins_goes_on_and_finds_it_finished(self):
        def again(iterations, *overrides):
            return self.run_local("--resume-or-start", f"train.total_iterations={iterations}",
                                  f"checkpoint.every_clocks={EVERY}", *overrides)

        script = again(100000000)
        self.wait_for_written(1)
        script.send(signal.SIGTERM)
        self.assertEqual(script.end(), 1, script.errors())
        summary = self.summary()
        total = summary["iterations"] + 100
        script = again(total, "train.batch_size=4")
        self.assertEqual(script.end(), 5, script.errors())
        self.assertNotIn("all nodes", script.output())  # what the run before had come to is not told as this one's
        self.assertEqual(self.summary(), summary)
        self.assertEqual(again(total).end(), 0)
        self.assertEqual((self.summary()["status"], self.summary()["generation"]), ("ok", 2))
        model = (self.run_dir / "model.bin").read_bytes()
        script = again(total, "train.init_from=/nowhere")  # which only a run that is begun reads
        self.assertEqual(script.end(), 4, script.errors())
        self.assertRegex("; ".join(script.errors()), "^paceline-server: the run in [^;]* has ended well[^;]*; a larger [^;]* extends it$")
        self.assertEqual((self.run_dir / "model.bin").read_bytes(), model)

    def test_all_shards_begin_where_one_alone_has_its_part_of_a_checkpoint(self):
        self.configure(shards=2)
        self.assertEqual(self.run_local("train.total_iterations=40", "checkpoint.every_clocks=5").end(), 0)
        for manifest in (self.run_dir / "checkpoint").glob("*/manifest"):
            manifest.unlink()  # as where the servers are killed before it is written
        (self.run_dir / "summary.json").unlink()
        script = self.run_local("--resume-or-start", "train.total_iterations=40")
        self.assertEqual(script.end(), 0, script.errors())
        self.assertEqual(self.summary().get("generation", 1), 1)

    def test_a_run_that_left_no_checkpoint_is_begun_anew(self):
        self.run_dir.mkdir()
        (self.run_dir / "server.log").write_text("of a run that died early", encoding="utf-8")
        script = self.run_local("--resume-or-start", "train.total_iterations=40")
        self.assertEqual(script.end(), 0, script.errors())
        self.assertNotIn("died early", (self.run_dir / "server.log").read_text(encoding="utf-8"))

    def test_a_model_that_cannot_be_read_is_said_before_a_run_is_begun(self):
        script = self.run_local("--resume-or-start", "train.init_from=/nowhere")
        self.assertEqual(script.end(), 2)
        self.assertRegex("; ".join(script.errors()), "^paceline check-config: train.init_from: [^;]*/nowhere[^;]*$")
        self.assertFalse(self.run_dir.exists())

    def test_a_run_that_was_stopped_with_its_model_alone_is_not_begun_over(self):
        script = self.run_local("train.total_iterations=100000000")
        script.wait_for_line(harness.PROGRESS.pattern)
        script.send(signal.SIGTERM)
        self.assertEqual(script.end(), 1, script.errors())
        model, summary = (self.run_dir / "model.bin").read_bytes(), self.summary()
        self.assert_ends(self.server(0, "--resume-or-start"), 3, r"paceline-server: no checkpoint to resume from .*; --force .*")
        script = self.run_local("--resume-or-start", "train.total_iterations=40")
        self.assertEqual(script.end(), 3, script.errors())
        self.assertEqual(((self.run_dir / "model.bin").read_bytes(), self.summary()), (model, summary))
        self.assertEqual(self.run_local("--force", "train.total_iterations=40").end(), 0)


if __name__ == "__main__":
    harness.main()
