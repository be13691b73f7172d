"""Training loops in PyTorch (torch_loops.py), through paceline.torch. Where Python has no torch, they are skipped, and say so."""

import csv
import os
import re
import signal

import harness
from calm_runs import LEASE
from foreign import PYTHON, ForeignTest, needs


@needs("numpy", "torch")
class TorchLoop(ForeignTest):
    """paceline.torch."""

    LOOPS = "torch_loops.py"

    def run_equal(self, nodes, mode, overlap, optimizer, made="perceptron", device="cpu", exchange=""):
        self.configure_loop(f"optimizer: {optimizer}, batch_size: 8, total_iterations: {20 * nodes}", nodes=nodes, exchange=exchange)
        server = self.server(0)
        loops = [self.loop("equal", node, made, mode, overlap, device) for node in range(nodes)]
        for loop in loops:
            self.assert_ends(loop, 0)
            if made in ("perceptron", "wide"):
                self.assertIn("names: 0.weight 0.bias 2.weight 2.bias", loop.output())
            self.assertLess(float(re.search("worst: (.*)", loop.output())[1]), 1e-5)
        self.assert_ends(server, 0)
        with (self.run_dir / "curve.csv").open(encoding="utf-8") as curve:  # the loop says no train accuracy, and evaluate says one
            self.assertEqual({(row["train_accuracy"], row["test_accuracy"] != "") for row in csv.DictReader(curve)}, {("", True)})

    def test_one_node_is_plain_pytorch_with_momentum(self):
        self.run_equal(1, "server", "overlap", "{kind: momentum, lr: 0.02, momentum: 0.9}", "wide")  # its first gradient is lent
        self.assertGreater(self.summary()["bytes_pushed_early"], 0)

    def test_models_on_a_gpu_are_plain_pytorch_there(self):
        has_gpu = "import sys, torch; sys.exit(0 if torch.cuda.is_available() else 77)"
        looked = self.start(PYTHON, "-c", has_gpu)
        if looked.end() == 77:
            self.skipTest("torch finds no GPU")
        self.assert_ends(looked, 0)
        momentum = "{kind: momentum, lr: 0.2, momentum: 0.9}"
        for mode, overlap, optimizer, made in (("server", "whole", momentum, "perceptron"), ("server", "overlap", momentum, "perceptron"),
                                               ("server", "overlap", "{kind: momentum, lr: 0.05, momentum: 0.9}", "resnet"),
                                               ("worker", "whole", "{kind: sgd, lr: 1}", "perceptron")):
            with self.subTest((mode, overlap, made)):
                self.run_dir = self.folder / f"{mode}-{overlap}-{made}"
                self.run_equal(2, mode, overlap, optimizer, made, "cuda")

    def test_one_node_is_plain_pytorch_with_another_kind_of_optimizer(self):
        self.run_equal(1, "server", "whole", "{kind: rmsprop, lr: 0.01, rho: 0.9}", "rmsprop")

    def test_four_nodes_are_plain_pytorch_with_four_times_the_mini_batch(self):
        self.run_equal(4, "server", "whole", "{kind: momentum, lr: 0.2, momentum: 0.9}")

    def test_two_nodes_that_sum_are_plain_pytorch(self):
        for shard in ("false", "true"):
            with self.subTest(shard):
                self.run_dir = self.folder / shard
                self.run_equal(2, "server", "overlap", "{kind: momentum, lr: 0.2, momentum: 0.9}",
                               exchange=f"{{kind: allreduce, shard_optimizer: {shard}}}")
                self.assertGreater(self.summary()["bytes_reduced"], 0)

    def test_a_residual_network_with_batch_norm_is_plain_pytorch_on_one_node_and_on_four(self):
        for nodes in (1, 4):
            with self.subTest(nodes):
                self.run_dir = self.folder / str(nodes)
                self.run_equal(nodes, "server", "overlap", "{kind: momentum, lr: 0.05, momentum: 0.9}", "resnet")

    def test_running_means_are_averaged_and_counters_are_not(self):
        for mode in ("server", "worker"):
            with self.subTest(mode):
                self.run_dir = self.folder / mode
                self.configure_loop("optimizer: {kind: sgd, lr: 1}, batch_size: 8, total_iterations: 10, eval_every_clocks: 2")
                server, loops = self.server(0), [self.loop("buffers", node, mode) for node in range(2)]
                for loop in loops:
                    self.assert_ends(loop, 0, *[r".*: training changes buffers that are each node's own: 'peak'; .*"] * (mode == "server"))
                    worst = re.search("worst: (.*) (.*)", loop.output())
                    self.assertLess(max(float(worst[1]), float(worst[2]) if loop is loops[0] else 0.0), 1e-6)
                self.assert_ends(server, 0)

    def test_weights_that_buffers_are_part_of_are_those_of_node_0(self):
        for mode, local_steps, own in (("server", 1, "own"), ("worker", 30, "mean")):
            with self.subTest(mode):
                self.run_dir = self.folder / mode
                lr = 0.2 if mode == "server" else 1
                self.configure_loop(f"optimizer: {{kind: sgd, lr: {lr}}}, batch_size: 8, total_iterations: 6, eval_every_clocks: 2")
                server, loops = self.server(0), [self.loop("woven", node, mode, local_steps, own) for node in range(2)]
                self.assert_end_quietly(loops)
                self.assertLess(float(re.search("largest singular value: (.*)", loops[0].output())[1]), 1.3)  # the norms promise 1
                for loop in loops:
                    self.assertLess(float(re.search("worst: (.*)", loop.output())[1]), 1e-5)
                self.assert_ends(server, 0)

    def test_one_autocast_around_the_loop_sees_the_parameters_of_each_step(self):
        for mode, local_steps in (("server", 1), ("worker", 2)):
            with self.subTest(mode):
                self.run_dir = self.folder / mode
                lr = 0.2 if mode == "server" else 1
                self.configure_loop(f"optimizer: {{kind: sgd, lr: {lr}}}, batch_size: 8, total_iterations: {6 // local_steps}, "
                                    "eval_every_clocks: 1", nodes=1)
                server, loop = self.server(0), self.loop("cast", 0, mode, local_steps)
                self.assert_ends(loop, 0)
                worst = re.search("worst: (.*) (.*)", loop.output())
                self.assertLess(max(float(worst[1]), float(worst[2])), 1e-5)
                self.assert_ends(server, 0)

    def test_two_nodes_with_optimizers_of_their_own_average_their_steps(self):
        self.run_equal(2, "worker", "whole", "{kind: sgd, lr: 1}")

    def test_local_steps_are_plain_loops_whose_parameters_are_averaged(self):
        for breaks in ("goes", "breaks"):
            with self.subTest(breaks):
                self.run_dir = self.folder / breaks
                self.configure_loop("optimizer: {kind: sgd, lr: 1}, batch_size: 8, total_iterations: 8, on_nan: skip")
                server, loops = self.server(0), [self.loop("local", node, breaks) for node in range(2)]
                for loop in loops:
                    warned = [".*1: the parameters are no longer finite; the optimizer's state begins anew"]
                    self.assert_ends(loop, 0, *warned * (breaks == "breaks" and loop is loops[1]))
                    self.assertLess(float(re.search("worst: (.*)", loop.output())[1]), 1e-5)
                self.assertEqual(server.end(), 0, server.errors())

    def test_a_killed_run_goes_on_with_the_optimizers_of_its_checkpoint(self):
        """Killed with its loops, or the servers alone, without which a loop whose optimizer has a state needs on_resume."""
        models = {}
        for killed in ("nothing", "all", "server", "no hook"):
            self.run_dir, kept, waits_at = self.folder / killed, self.folder / f"kept {killed}", -1 if killed == "nothing" else 7
            self.configure_loop("optimizer: {kind: sgd, lr: 1}, batch_size: 8, total_iterations: 24",
                                cluster=f"lease: {LEASE:g}s, heartbeat: 200ms, reconnect_timeout: 60s")
            with self.config.open("a", encoding="utf-8") as config:
                config.write("checkpoint: {every_clocks: 5}\n")
            hook = "none" if killed == "no hook" else "hook"
            releases = [f"{kept}-{node}-release" for node in range(2)]
            for release in releases:
                os.mkfifo(release)
            server, loops = self.server(0), [self.loop("resumed", node, kept, waits_at, hook) for node in range(2)]
            if waits_at > 0:
                self.wait_for_log("server.log", "checkpoint of version 5")
                for program in (server, *loops) if killed == "all" else (server,):
                    program.process.kill()
                    program.end()
                server = self.server(0, "--resume")
                if killed == "all":
                    loops = [self.loop("resumed", node, kept, -1) for node in range(2)]
                for release in releases:  # no loop waits for us, nor we for it
                    self.addCleanup(os.close, os.open(release, os.O_RDWR))
            for loop in loops:
                self.assertEqual(loop.end(), 0, loop.errors())  # where its servers were lost, it has said so
                refusals = ["refused: load_state_dict(): got the state of clock 6, expected 5, where the run goes on",
                            "refused: load_state_dict(): got a state of mode='server', expected one of mode='worker'",
                            "refused: load_state_dict(): got an optimizer's state with '2.bias' where this one has '0.weight', "
                            "expected the same parameters in the same order",
                            "refused: load_state_dict(): got a state without its optimizer's 'parameters', as earlier versions made it, "
                            "expected one that this version's state_dict() made"]
                printed = loop.output().splitlines()
                if killed == "no hook":
                    self.assertRegex(printed[0], r"optimizer\.step\(\): the servers have gone back from clock [678] to 5, expected attach\(…, "
                                     r"on_resume=…\), which loads the optimizer's state of then; or a resume of the run")
                self.assertEqual(printed[1 if killed == "no hook" else 0:], {
                    "nothing": ["clock: 12"], "no hook": ["clock: 5"]}.get(killed, ["goes on at: 5", *refusals, "clock: 12"]))
            if killed == "no hook":
                server.end()
            else:
                self.assert_ends(server, 0)
                models[killed] = (self.run_dir / "model.bin").read_bytes()
        self.assertEqual(models["nothing"], models["all"])
        self.assertEqual(models["nothing"], models["server"])

    def test_parameters_that_are_trained_unusually_are_as_in_plain_pytorch(self):
        self.configure_loop("optimizer: {kind: sgd, lr: 0.1}, batch_size: 8, total_iterations: 8", nodes=1)
        server, loop = self.server(0), self.loop("unusual", 0)
        self.assert_ends(loop, 0, ".*: the local optimizer's lr has changed from 0.1 to 0.01: with mode='server' the rate is "
                         "train.optimizer.schedule's")
        self.assertRegex(loop.output(), r"warned: .*optimizer: steps 5 of 7 trainable parameters; 'left_out\.weight' is not among them")
        self.assertLess(float(re.search("worst: (.*)", loop.output())[1]), 1e-5)
        self.assertEqual(server.end(), 0, server.errors())  # its loop has ended before the last iteration

    def test_parameters_without_a_gradient_take_no_step_as_in_plain_pytorch(self):
        for nodes, overlap in ((1, "overlap"), (2, "whole")):
            with self.subTest(nodes):
                self.run_dir = self.folder / str(nodes)
                self.configure_loop("optimizer: {kind: momentum, lr: 0.2, momentum: 0.9, weight_decay: 0.1}, batch_size: 8, "
                                    f"total_iterations: {12 * nodes}", nodes=nodes)
                server, loops = self.server(0), [self.loop("unused", node, overlap) for node in range(nodes)]
                for loop in loops:
                    self.assert_ends(loop, 0)
                    self.assertLess(float(re.search("worst: (.*)", loop.output())[1]), 1e-5)
                self.assert_ends(server, 0)

    def test_what_pytorch_does_unexpectedly_changes_nothing(self):
        for overlap in ("overlap", "whole"):
            with self.subTest(overlap):
                self.run_dir = self.folder / overlap
                self.configure_loop("optimizer: {kind: momentum, lr: 0.2, momentum: 0.9}, batch_size: 8, total_iterations: 50", nodes=1)
                server, loop = self.server(0), self.loop("surprising", 0, overlap)
                self.assert_ends(loop, 0)
                self.assertEqual(loop.output().splitlines()[:3], [f"warned: {overlap == 'overlap'}", "clock: 6", "stale: True"])
                self.assertLess(float(re.search("worst: (.*)", loop.output())[1]), 1e-5)
                self.assertEqual(server.end(), 0, server.errors())  # its loop has ended before the last iteration

    def test_what_passes_through_page_locked_memory_is_the_same(self):
        for mode, overlap in (("server", "whole"), ("server", "overlap"), ("worker", "whole")):
            with self.subTest(mode + overlap):
                self.run_dir = self.folder / (mode + overlap)
                outer = "{kind: sgd, lr: 1}" if mode == "worker" else "{kind: momentum, lr: 0.2, momentum: 0.9}"
                self.configure_loop(f"optimizer: {outer}, batch_size: 8, total_iterations: 50", nodes=1)
                server, loop = self.server(0), self.loop("staged", 0, mode, overlap, of="torch_edges.py")
                self.assert_ends(loop, 0)
                self.assertEqual(loop.output().splitlines()[0], "clock: 6")
                self.assertLess(float(re.search("worst: (.*)", loop.output())[1]), 1e-5)
                self.assertEqual(server.end(), 0, server.errors())  # its loop has ended before the last iteration

    def test_a_tensor_shares_the_worker_s_memory(self):
        self.configure_loop("optimizer: {kind: sgd, lr: 1}, batch_size: 1, total_iterations: 4", nodes=1)
        server, loop = self.server(0), self.loop("dlpack", 0, of="torch_edges.py")
        self.assert_ends(loop, 0)
        self.assertEqual(loop.output(), "counts: [1.0, 2.0, 7.0]")
        self.assert_ends(server, 0)

    def test_a_step_that_grad_scaler_skips_closes_its_clock_without_a_contribution(self):
        for fused, mode, clips, nodes, on_nan in (("fused", "server", "clips", 1, "skip"), ("plain", "server", "clips", 2, "skip"),
                                                  ("plain", "server", "whole", 1, "stop"), ("fused", "worker", "whole", 2, "skip"),
                                                  ("plain", "worker", "whole", 2, "skip")):
            with self.subTest(f"{fused} {mode} {clips} {nodes} {on_nan}"):
                self.run_dir = self.folder / f"{fused}{mode}{on_nan}{nodes}"
                lr = 0.2 if mode == "server" else 1
                self.configure_loop(f"optimizer: {{kind: sgd, lr: {lr}}}, batch_size: 8, total_iterations: 50, on_nan: {on_nan}", nodes=nodes)
                server, loops = self.server(0), [self.loop("scaled", node, fused, mode, clips, of="torch_edges.py") for node in range(nodes)]
                for loop in loops:
                    self.assert_ends(loop, 0)
                    # With on_nan: stop GradScaler of one that is not fused calls no step(), and the next one closes the clock.
                    self.assertIn(f"clock: {5 if on_nan == 'stop' else 6}", loop.output())
                    self.assertLess(float(re.search("worst: (.*)", loop.output())[1]), 1e-5)
                self.assertEqual(server.end(), 0, server.errors())  # their loops have ended before the last iteration

    def test_a_round_s_samples_are_those_of_its_passes_by_the_model_itself(self):
        self.configure_loop("optimizer: {kind: sgd, lr: 0.1}, batch_size: 8, total_iterations: 50", nodes=1)
        server, loop = self.server(0), self.loop("counted", 0, of="torch_samples.py")
        self.assert_ends(loop, 0)
        self.assertEqual(loop.output(), "counted: 3")
        self.assertEqual(server.end(), 0, server.errors())  # its loop has ended before the last iteration

    def test_a_model_that_is_compiled_behind_attach_is_compiled_as_often_as_without(self):
        self.configure_loop("optimizer: {kind: sgd, lr: 0.2}, batch_size: 8, total_iterations: 50", nodes=1)
        server, loop = self.server(0), self.loop("compiles", 0, of="torch_samples.py")
        self.assert_ends(loop, 0)
        self.assertRegex(loop.output(), "compiled: 1 [12]$")  # once more for a second backward()
        self.assertEqual(server.end(), 0, server.errors())  # its loop has ended before the last iteration

    def test_a_report_behind_step_is_no_guess_at_the_next_round_s_samples(self):
        self.configure_loop("optimizer: {kind: sgd, lr: 0.1}, batch_size: 8, total_iterations: 50", nodes=1)
        server, loop = self.server(0), self.loop("behind", 0, of="torch_samples.py")
        self.assert_ends(loop, 0)
        self.assertEqual(loop.output(), "(None, 12) (None, 6) (3, 4) (3, 4) 30")
        self.assertEqual(server.end(), 0, server.errors())  # its loop has ended before the last iteration

    def test_nodes_that_exchange_different_things_are_refused(self):
        self.configure_loop("optimizer: {kind: momentum, lr: 1, momentum: 0.9}, batch_size: 8, total_iterations: 40")
        server, first = self.server(0), self.loop("equal", 0, "perceptron", "server", "whole")
        self.wait_for_log("server.log", "node 0 joined")
        second = self.loop("equal", 1, "perceptron", "worker", "whole")
        self.assertEqual(second.end(), 1)
        self.assertRegex(second.errors()[-1], r"node 1: parameter layout .*: tensor 0: '0\.weight' \(256, 6\) may not be unused")
        first.process.terminate()
        server.process.terminate()
        first.end(), server.end()

    def test_samples_that_the_model_itself_was_not_given_count(self):
        for steps in (1, 2):
            with self.subTest(steps):
                self.run_dir = self.folder / str(steps)
                self.configure_loop("optimizer: {kind: sgd, lr: 1}, batch_size: 8, total_iterations: 50", nodes=1)
                server, loop = self.server(0), self.loop("unseen", 0, steps, of="torch_samples.py")
                self.assertEqual(loop.end(), 0, loop.errors())  # the servers' rate is not the local one
                self.assertEqual(loop.output().splitlines(), [f"eval True {8 * steps} {8 * steps}", f"part False {8 * steps} {16 * steps}",
                                                              f"reported True {5 * steps} {21 * steps}", f"thrown away True {8 * steps} {29 * steps}",
                                                              f"correct True {8 * steps} {37 * steps}", f"last True {8 * steps} {45 * steps}"])
                self.assertEqual(server.end(), 0, server.errors())  # its loop has ended before the last iteration

    def test_biases_and_norms_are_told_from_weights(self):
        loop = self.loop("roles", 0, of="torch_edges.py")
        self.assert_ends(loop, 0)
        expected = ["MultiheadAttention in_proj_weight:weight in_proj_bias:bias bias_k:bias bias_v:bias",
                    "LSTM weight_ih_l0:weight weight_hh_l0:weight bias_ih_l0:bias bias_hh_l0:bias",
                    "LayerNorm weight:norm bias:norm", "Linear weight:weight bias:bias", "RMSNorm weight:norm"]
        self.assertIn(loop.output().splitlines(), (expected, expected[:-1]))  # without what an older torch has not

    def test_a_state_of_another_clock_is_loaded_where_a_node_may_have_been_behind(self):
        loop = self.loop("loaded", 0, of="torch_edges.py")
        self.assert_ends(loop, 0)
        got = "load_state_dict(): got the state of clock {}, expected 5, where the run goes on"
        self.assertEqual(loop.output().splitlines(), [
            f"bsp True 4 is loaded {got.format(4)}: unless this node comes back to a run that has gone on, the data of 1 of its clocks come "
            "once more", "bsp True 5 is loaded",
            f"bsp True 6 is refused: {got.format(6)}",
            f"bsp False 4 is refused: {got.format(4)}", "bsp False 5 is loaded", f"bsp False 6 is refused: {got.format(6)}",
            "ssp True 4 is loaded", "ssp True 5 is loaded", f"ssp True 6 is refused: {got.format(6)}",
            "ssp False 4 is loaded", "ssp False 5 is loaded", f"ssp False 6 is refused: {got.format(6)}",
            "versioned False is refused", "versioned True is refused", "eager False is refused", "eager True is loaded",
            "the run goes on at clock 5, but nothing was loaded by run.load_state_dict(): it begins anew"])

    def test_no_zero_of_a_gradient_leaves_as_the_mark_of_having_none(self):
        loop = self.loop("zeros", 0, of="torch_edges.py")
        self.assert_ends(loop, 0)
        self.assertEqual(loop.output().splitlines(), ["False -1.0", f"False {-1 / 1024}"])

    def test_of_a_loop_s_states_those_stay_that_a_resume_may_need(self):
        loop = self.loop("files", 0, of="torch_edges.py")
        self.assert_ends(loop, 0)
        self.assertEqual(loop.output().splitlines(), [
            "needed: [5, 10, 11, 12] [5, 6, 7, 8, 9, 10, 11, 12] [12] [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12] "
            "[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]",
            "of every fifth: [5, 10, 12] [3, 7, 10, 12] [3, 5, 7, 10, 12] [5, 10, 12]",
            "bsp null 5 10 11 12 13; loads 10; loads 10; 5 10; ", " ".join(map(str, range(10, 105, 5))),
            "bsp 5 5 10 13; loads 10; loads 10; 5 10; ", " ".join(map(str, range(55, 105, 5))),
            "asp 5 5 10 13; loads 13; loads 13; 5 10; ", " ".join(map(str, range(55, 105, 5))),
            "ssp 5 5 10 13; loads 10; loads 10; 5 10; ", " ".join(map(str, range(55, 105, 5))),
            "loads 3; 0.96",
            "also: got 3 as 'scheduler', expected what has state_dict() and load_state_dict()",
            "also: got ['scaler', 'scheduler'], expected ['scheduler'], as FOLDER/state-1-3.pt has",
            "checkpoint.every: got 5m with mode='worker', expected checkpoint.every_clocks alone, whose states are few"])

    def test_a_gradient_that_changes_after_it_left_is_refused_by_its_name(self):
        for how, complaint in (("clips", r"parameter '.*': its gradient has changed after it left, .*"),
                               ("accumulates", r"parameter '.*': a second gradient before step\(\), .*"),
                               ("checkpoints", r"parameter '.*': a second gradient before step\(\), .*")):
            with self.subTest(how):
                self.run_dir = self.folder / how
                self.configure_loop("optimizer: {kind: sgd, lr: 0.1}, batch_size: 8, total_iterations: 50", nodes=1)
                server, loop = self.server(0), self.loop("ahead", 0, how, of="torch_edges.py")
                self.assertEqual(loop.end(), 0)
                self.assertRegex(loop.output(), f"{how}: {complaint}")
                self.assertEqual(server.end(), 1)

    def test_what_cannot_be_exchanged_is_refused(self):
        self.configure_loop("optimizer: {kind: sgd, lr: 0.1}, batch_size: 8, total_iterations: 50", nodes=1)
        server, loop = self.server(0), self.loop("refused", 0, of="torch_edges.py")
        self.assertEqual(loop.end(), 0)
        printed = loop.output()
        for what, got, kind, expected in (
                ("kind", "RMSprop", "sgd", "SGD"), ("subclass", "Own", "sgd", "SGD"), ("adam", "Adam", "sgd", "SGD"),
                ("no kind", "NAdam", "adam", "Adam or AdamW"), ("rule", "amsgrad=True", "adam", "False"),
                ("plain", "momentum=0.9", "sgd", "0.0"), ("ascent", "maximize=True", "sgd", "False"),
                ("damped", "dampening=0.5", "momentum", "0.0"), ("centered", "centered=True", "rmsprop", "False"),
                ("slowed", "lr_decay=0.1", "adagrad", "0.0")):
            self.assertIn(f"{what}: optimizer: got {got} with mode='server' and train.optimizer.kind {kind}, expected {expected}, "
                          "another kind, or mode='worker'", printed)
        self.assertEqual(len(re.findall(r"(?m)^\w+ by \w+: parameter '0\.weight': got torch\.float64", printed)), 8, printed)
        self.assertEqual(len(re.findall(r"(?m)^argument: (\w+): got .*, expected ", printed)), 11, printed)
        for complaint in (r"double: parameter '0\.weight': got torch\.float64, expected torch\.float32",
                          r"spread: parameter '1\.weight': got device meta, expected cpu, where '0\.weight' is: a model on one device",
                          r"shared: optimizer: it is attached already, .*",
                          r"swapped: model: got SGD, expected a torch\.nn\.Module.*",
                          r"two: optimizer: got list, expected one torch\.optim\.Optimizer.*",
                          r"others: optimizer: steps a tensor \(256, 6\) that is no parameter of the model.*",
                          r"nothing: optimizer: steps no parameter of the model, expected at least one: .*",
                          r"world: cluster\.nodes: got 1, expected 3, the WORLD_SIZE of the environment",
                          r"mode: mode: got 'both', expected .*",
                          r"buffers: buffers: got 'none', expected .*",
                          r"buffers: buffers: got 3, expected .*",
                          r"buffers: buffers: got '1\.num_batches_tracked', expected names .*: 1\.running_mean, 1\.running_var",
                          r"buffers: buffer 'fine': got torch\.float64, expected torch\.float32 or narrower, .*",
                          r"lazy: parameter '0\.weight': has no shape yet, expected .*",
                          r"balance: train\.batch_balance: got speed, expected off: .*",
                          r"copied: evaluate: got a model that cannot be copied \(.*\), expected one that can, .*",
                          r"words: WORLD_SIZE: got 'x' in the environment, expected a whole number, 0 or more",
                          r"rank: RANK: got '-1' in the environment, expected a whole number, 0 or more",
                          r"\ndecay: train\.optimizer\.decoupled: got false and weight_decay 0\.01, expected true with AdamW and .*",
                          r"no decay: train\.optimizer\.decoupled: got true and weight_decay 0\.01, expected false with Adam and .*",
                          r"decay of both: parameter '0\.weight': got torch\.float64.*",
                          r"groups: optimizer: got groups with betas=\(0\.9, 0\.999\) and \(0\.8, 0\.999\) with mode='server', expected one .*",
                          r"worker: sync\.combine: got each with mode='worker', expected mean: .*",
                          r"local: train\.local_steps: got 5 with mode='worker', expected 1: .*",
                          r"free: optimizer: got Free, which has an eval\(\) of its own, with mode='worker', expected .*",
                          r"no rate: train\.optimizer\.lr: got none with mode='worker', expected one, of which 1 takes the mean.*",
                          r"null: train\.optimizer\.lr: got none.*",
                          r"\nrate: parameter '0\.weight': got torch\.float64.*",  # after the rate comes the model
                          r"layers: train\.layers: .*, got 2 layers, expected none.*",
                          r"twice: model: it is attached already, .*",
                          r"coded: cluster\.gradient_encoding: tensor '1\.running_mean' is a buffer, .*, got int8, expected fp32, .*",
                          r"stale: train\.optimizer\.staleness: tensor '1\.running_mean' is a buffer, .*, expected none, .*",
                          r"launched: PACELINE_LAUNCHED: got 'nonsense', expected what paceline\.launch sets, or none",
                          r"parallel: model: got a DataParallel, expected the model itself \(model\.module\)",
                          r"parallel: module '0': got a DataParallel, expected the model itself \(model\.module\)",
                          r"parallel: model: got a Mine, expected the model itself \(model\.module\)",
                          r"parts: parameter '0\.weight': got a Parameter, of which other processes have parts, expected a whole tensor",
                          r"assigned: model: load_state_dict\(\) has replaced parameters \('0\.weight'\), expected .*",
                          r"closure: optimizer\.step\(\): got a closure, expected none.*",
                          r"added: optimizer: steps 'a tensor that is not the model's'.*"):
            self.assertRegex(printed, complaint)
        is_, own = "train.optimizer.{} is {}", ", the local optimizer's "
        self.assertEqual(re.findall("(?m)^differ: (.*)$", printed), [str([is_.format(key, servers) + own + local for key, servers, local in differ])
                                                                  for differ in (
            (("epsilon", "1e-08", "0.001"), ("weight_decay", "0", "0.01"), ("decoupled", "false", "true")),
            (("weight_decay", "0", "0.5"),), (("rho", "0.99", "0.9"),))])
        self.assertEqual(re.findall(r"(?m)^outer: (\S+) (\d)", printed), [("0.1", "1"), ("0.5", "0"), ("1", "0"), ("3.2", "1")])
        self.assertEqual(server.end(), 0, server.errors())
        self.assertEqual(re.findall("warning (.*)", (self.run_dir / "worker-0.log").read_text(encoding="utf-8")), [
            "the configuration says data, expected none: this program has not imported paceline.data, which reads it",
            "the servers' optimizer steps with defaults: train.optimizer.weight_decay is 0, the local optimizer's 0.25"])


@needs("numpy", "torch")
class TorchLaunch(ForeignTest):
    """paceline.torch.launch, and torchrun: who starts the programs says which node each is (launch_test.py)."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        # PyTorch is loaded up to four times in one case: this is for what hangs.
        deadline, harness.DEADLINE = harness.DEADLINE, 600.0
        cls.addClassCleanup(setattr, harness, "DEADLINE", deadline)

    def test_the_gpt_example_is_launched_and_learns(self):
        program = self.example("torch_gpt")
        launched = self.launch(*program, module="paceline.torch.launch")
        self.assertEqual(launched.end(), 0, launched.errors())
        self.assertTrue(launched.output().startswith("the "), launched.output())
        self.assertGreater(self.summary()["test_accuracy"], 0.6)

    def test_a_signal_ends_all_in_order_and_the_loops_go_on_from_there(self):
        self.configure_loop("optimizer: {kind: sgd, lr: 1}, batch_size: 8, total_iterations: 1000000", sync="{policy: ssp, threshold: 3, combine: mean}")
        loop, before = harness.SOURCE / "tests/process/daemons/torch_edges.py", 0
        for number in (signal.SIGTERM, signal.SIGINT):
            launched = self.launch("--existing", "continue", "checkpoint.every_clocks=1000000", loop, "stops", self.config,
                                   self.folder / "state", 1)
            launched.wait_for_line("has three rounds")
            launched.send(number)
            self.assertEqual(launched.end(), 1)
            self.assertEqual((self.summary()["status"], self.summary()["lost_nodes"]), ("stopped", 0))
            ends = sorted(re.findall(r"(?m)^(\d): from (\d+) to (\d+), (\d+) samples, stopped: True$", launched.output()))
            (_, begin, end, samples), (_, other_begin, other_end, other_samples) = [tuple(map(int, each)) for each in ends]
            self.assertEqual(begin, other_begin)
            # Two steps of 8 a round; node 1 does not load where it was.
            self.assertEqual((samples, other_samples), (before + 16 * (end - begin), 16 * (other_end - begin)))
            self.assertEqual([line[:17] for line in launched.errors() if "nothing was loaded" in line], ["paceline-worker 1"] * (before > 0))
            self.assertFalse([line for line in launched.errors() if "Traceback" in line])
            before = samples

    def test_where_all_loops_are_killed_between_two_checkpoints_each_sample_is_taken_once(self):
        """The servers save where they are."""
        self.configure_loop("optimizer: {kind: sgd, lr: 1}, batch_size: 8, total_iterations: 40", sync="{policy: bsp}")
        loop = harness.SOURCE / "tests/process/daemons/torch_edges.py"
        for dies_at, status in ((13, 1), (-1, 0)):
            launched = self.launch("--existing", "continue", "checkpoint.every_clocks=5", loop, "stops", self.config, self.folder / "state",
                                   -1, dies_at)
            self.assertEqual(launched.end(), status, launched.errors())
        printed = sorted(launched.output().splitlines())
        self.assertEqual(printed, [f"{node}: from 13 to 20, {20 * 2 * 8} samples, stopped: False" for node in range(2)])
        self.assertNotIn("load_state_dict()", "\n".join(launched.errors()))

    def test_torchrun_says_which_node_a_program_is(self):
        program = self.example("torch_gpt", "train.total_iterations=8")
        server = self.server(0, "train.total_iterations=8")
        launched = self.start(PYTHON, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", 2, *program)
        self.assertEqual((launched.end(), server.end()), (0, 0), launched.errors())
        self.assertEqual(self.summary()["iterations"], 8)


if __name__ == "__main__":
    harness.main()
