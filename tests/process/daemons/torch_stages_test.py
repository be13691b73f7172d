"""PyTorch models over stages (torch_stage_loops.py), through paceline.torch.pipeline. Where Python has no torch, they are
skipped, and say so."""

import os
import re
import signal

import harness
from foreign import ForeignTest, needs


@needs("numpy", "torch")
class TorchStages(ForeignTest):
    LOOPS = "torch_stage_loops.py"

    def configure_stages(self, pipeline, nodes, lr=0.1, steps=12, cluster="", more=""):
        self.configure_loop(f"optimizer: {{kind: momentum, lr: {lr}, momentum: 0.9, weight_decay: 0.01}}, batch_size: 8, total_iterations: {steps * nodes}",
                            nodes=nodes, cluster=cluster)
        with open(self.config, "a", encoding="utf-8") as config:
            config.write(f"pipeline: {{balance: loop, {pipeline}}}\n{more}")

    def ended(self, name, nodes, *arguments):
        """What the loops of all nodes say at the end."""
        server, loops = self.server(0), [self.loop(name, node, *arguments) for node in range(nodes)]
        self.assert_end_quietly(loops)
        self.assert_ends(server, 0)
        return [loop.output() for loop in loops]

    def assert_equal(self, printed, within=1e-6):
        for output in printed:
            self.assertLess(float(re.search("worst: (.*)", output)[1]), within)
        self.assertLess(float(re.search("model: (.*)", printed[0])[1]), within)

    def test_three_stages_are_plain_pytorch_with_the_whole_mini_batch(self):
        self.configure_stages("stages: 3, micro_batches: 5, schedule: 1f1b, rematerialize: on", 3)
        self.assert_equal(self.ended("equal", 3, "perceptron", "2+3+2"))
        printed = self.summary()["pipeline"]
        self.assertEqual((printed["stages"], printed["micro_batches"], len(printed["idle_for_next_seconds"])), (3, 5, 3))
        self.assertTrue(all(each > 0 for each in printed["peak_activation_bytes"]))

    def test_two_groups_are_plain_pytorch_with_twice_the_mini_batch(self):
        self.configure_stages("stages: 2, micro_batches: 16, schedule: gpipe", 4)
        self.assert_equal(self.ended("equal", 4, "perceptron", "3+4"))
        # Of 16 micro-batches of a row, a copy of the row and what the Tanh gives.
        self.assertEqual(self.summary()["pipeline"]["peak_activation_bytes"][0], 16 * (6 + 32) * 4)

    def test_two_groups_that_sum_among_themselves_are_plain_pytorch_and_refuse_a_smaller_mini_batch(self):
        self.configure_stages("stages: 2, micro_batches: 4", 4, more="exchange: {kind: allreduce, on_loss: stop}\n")
        printed = self.ended("equal", 4, "perceptron", "3+4")
        self.assert_equal(printed)
        for output in printed:
            self.assertRegex(output, r"refused: .*a mini-batch of 13 samples, expected 16 with exchange\.kind: allreduce")
        self.assertGreater(self.summary()["bytes_reduced"], 0)

    def test_batch_norm_in_one_piece_measures_what_plain_pytorch_does(self):
        self.configure_stages("stages: 2, micro_batches: 1, rematerialize: on", 2, lr=0.05)
        self.assert_equal(self.ended("equal", 2, "normed", "4+4"))

    def test_weights_that_buffers_are_part_of_are_those_of_node_0(self):
        self.configure_stages("stages: 2, micro_batches: 1, rematerialize: off", 2, steps=12)
        self.assert_equal(self.ended("equal", 2, "parametrized", "2+3"), within=0.02)  # in bfloat16

    def test_norms_of_micro_batches_measure_the_whole_mini_batch(self):
        loop = self.loop("measured", 0)
        self.assert_ends(loop, 0)
        self.assertLess(float(re.search("worst: (.*)", loop.output())[1]), 1e-3)

    def test_what_is_computed_again_has_the_same_bits_and_draws(self):
        seen = []
        for again in ("off", "on"):
            self.run_dir = self.folder / again
            self.configure_stages(f"stages: 2, micro_batches: 4, schedule: 1f1b, rematerialize: {again}", 2, steps=6)
            seen.append((self.ended("ends", 2, "dropped", "4+3"), self.summary()["pipeline"]["peak_activation_bytes"]))
        self.assertEqual(seen[0][0], seen[1][0])
        self.assertLess(seen[1][1][0], seen[0][1][0])  # the first stage keeps one micro-batch of two

    def test_killed_stages_go_on_where_their_data_were_also_cut_anew(self):
        models = {}
        for killed in ("nothing", "all"):
            self.run_dir, kept = self.folder / killed, self.folder / f"kept {killed}"
            self.configure_stages("stages: 2, micro_batches: 4", 2, more="checkpoint: {every_clocks: 5}\n")
            for node in range(2):
                os.mkfifo(f"{kept}-{node}-release")
            server, loops = self.server(0), [self.loop("resumed", node, "3+4", kept, 7 if killed == "all" else -1) for node in range(2)]
            if killed == "all":
                self.wait_for_log("server.log", "checkpoint of version 5")
                for program in (*loops, server):
                    program.process.kill()
                    program.end()
                server, loops = self.server(0, "--resume"), [self.loop("resumed", node, "5+2", kept, -1) for node in range(2)]
            not_loaded = r"paceline-worker 1: the run goes on at clock 5, but nothing was loaded .*: run\.position begins at 0"
            for loop in loops:
                self.assert_ends(loop, 0, *([not_loaded] if killed == "all" and loop is loops[1] else []))
                goes_on = ["goes on at: 5", "refused: load_state_dict(): got the state of clock 6, expected 5, where the run goes on"]
                self.assertEqual(loop.output().splitlines(), [*(goes_on if killed == "all" else []), "clock: 12 position: 192"])
            self.assert_ends(server, 0)
            models[killed] = (self.run_dir / "model.bin").read_bytes()
        self.assertEqual(models["nothing"], models["all"])

    # A lease of ten minutes: who ends before has been told by what happened, not by silence.

    def test_a_stage_that_is_killed_is_named_by_the_others(self):
        self.configure_stages("stages: 2, micro_batches: 4", 2, steps=1000000, cluster="lease: 600s")
        server, loops = self.server(0), [self.loop("ends", node, "dropped", "4+3") for node in range(2)]
        self.wait_for_log("worker-0.log", "is connected to 1 other node")
        loops[1].send(signal.SIGKILL)
        self.assertEqual(loops[0].end(), 1)
        self.assertEqual(server.end(), 1)
        self.assertRegex("\n".join(loops[0].errors()), r"stage 1 \(node 1\)|node 1 lost")
        self.assertRegex(self.summary()["reason"], "^node 1 lost: ")

    def test_what_a_stage_raises_is_the_reason_that_its_node_leaves_for(self):
        for stage, way in ((1, "forward"), (0, "back")):
            with self.subTest(way):
                self.run_dir = self.folder / way
                self.configure_stages("stages: 3, micro_batches: 5, schedule: 1f1b", 3, cluster="lease: 600s")
                server, loops = self.server(0), [self.loop("raises", node, "perceptron", "2+3+2", stage, way) for node in range(3)]
                self.assertEqual([program.end() for program in (*loops, server)], [1] * 4)
                self.assertEqual(loops[stage].errors(), [f"ArithmeticError: no way {way} today"])
                self.assertRegex(self.summary()["reason"], f"^node {stage} lost: .*ArithmeticError: no way {way} today")

    def test_a_stage_that_hangs_is_lost_and_not_the_one_that_waits_for_it(self):
        self.configure_stages("stages: 2, micro_batches: 1", 2, cluster="lease: 600s")
        server, loops = self.server(0), [self.loop("waits", node, "perceptron", "3+4", seconds) for node, seconds in enumerate((3, 5))]
        self.assertEqual([program.end() for program in (*loops, server)], [1] * 3)
        self.assertTrue(any("in sleep" in line for line in loops[1].errors()), loops[1].errors())
        self.assertFalse(any(line.startswith("Timeout") for line in loops[0].errors()), loops[0].errors())
        self.assertRegex(self.summary()["reason"], "^node 1 lost: ")

    def test_ctrl_c_ends_a_stage_that_waits_for_another(self):
        self.configure_stages("stages: 2, micro_batches: 1", 2, cluster="lease: 600s")
        server, loops = self.server(0), [self.loop("waits", node, "perceptron", "3+4") for node in range(2)]
        loops[1].wait_for_line("sleeps")
        loops[0].send(signal.SIGINT)
        self.assertEqual(loops[0].end(), -signal.SIGINT)
        self.assertEqual(server.end(), 1)
        self.assertRegex(self.summary()["reason"], "^node 0 lost: .*interrupted")
        loops[1].send(signal.SIGKILL)

    def test_what_cannot_be_cut_is_refused(self):
        self.configure_stages("stages: 2, micro_batches: 4", 2)
        loop = self.loop("refused", 0)
        self.assertEqual(loop.end(), 0, loop.errors())
        printed = loop.output()
        for complaint in (r"module: model: got a Linear, expected a torch\.nn\.Sequential",
                          r"parallel: module '0': got a DataParallel, expected the model itself \(model\.module\)",
                          r"sum: balance: got \[2, 2\], expected numbers above 0 that add up to the 7 modules",
                          r"stages: balance: got 3 stages, expected 2, pipeline\.stages",
                          r"none: balance: stage 1 has no parameters, expected some in each",
                          r"tied: parameter '1\.weight' of stage 1: is in stage 0, too, expected one stage",
                          r"shape: module '0': .*, expected one that computes shapes on the device meta",
                          r"list: .*pipeline\.balance: .*",
                          r"attached: pipeline\.stages: got 2, and no stage of the loop's model",
                          r"cut: \[3, 1\] \[2, 2, 4\] \[2, 1\]",
                          r"balance: 7"):
            self.assertRegex(printed, complaint)


if __name__ == "__main__":
    harness.main()
