"""Training loops in JAX (jax_loops.py), through paceline.jax. Where Python has no jax, they are skipped, and say so."""

import os
import re

import harness
from calm_runs import LEASE
from foreign import ForeignTest, needs


@needs("numpy", "jax")
class JaxLoop(ForeignTest):
    """paceline.jax."""

    LOOPS = "jax_loops.py"
    TRAIN = "optimizer: {kind: sgd, lr: 0.1}, batch_size: 4, total_iterations: 40"

    def assert_as_expected(self, server, *loops):
        """Returns what they have said, but for how far they are from what was expected, which is hardly."""
        for loop in loops:
            self.assertEqual(loop.end(), 0, loop.errors())  # where its servers were lost, it has said so
        self.assert_ends(server, 0)
        printed = [loop.output().splitlines() for loop in loops]
        for lines in printed:
            self.assertLess(float(re.fullmatch("worst: (.*)", lines.pop())[1]), 1e-5)
        return printed

    def kill_at(self, clock, *programs):
        """Where they wait there, and the run has a checkpoint."""
        self.wait_for_log("server.log", f"checkpoint of version {clock}")
        for program in programs:
            program.process.kill()
            program.end()

    def test_two_nodes_are_a_plain_loop_with_twice_the_mini_batch(self):
        for exchange in ("", "{kind: allreduce}"):
            with self.subTest(exchange):
                self.run_dir = self.folder / f"run{len(exchange)}"
                self.configure_loop(self.TRAIN, exchange=exchange)
                self.assert_as_expected(self.server(0), *(self.loop("regression", node) for node in range(2)))

    def test_a_leaf_is_stepped_as_it_is_said_to_be_and_none_takes_no_step(self):
        self.configure_loop("optimizer: {kind: momentum, lr: 0.1, momentum: 0.9, weight_decay: 0.25, decay: weights}, batch_size: 4, total_iterations: 20",
                            nodes=1)
        self.assert_as_expected(self.server(0), self.loop("of_leaves", 0))

    def test_one_array_is_a_tree(self):
        self.configure_loop("optimizer: {kind: sgd, lr: 0.1}, batch_size: 4, total_iterations: 20", nodes=1)
        printed = self.assert_as_expected(self.server(0), self.loop("array", 0))
        self.assertEqual(printed, [["gradient params: got a NoneType, expected an array of floats"]])

    def test_a_killed_run_goes_on_with_the_data_of_its_clock(self):
        self.configure_loop(self.TRAIN)
        with self.config.open("a", encoding="utf-8") as config:
            config.write("checkpoint: {every_clocks: 5}\n")
        os.mkfifo(never := self.folder / "never")
        self.kill_at(5, self.server(0), *(self.loop("regression", node, 7, never) for node in range(2)))
        printed = self.assert_as_expected(self.server(0, "--resume"), *(self.loop("regression", node) for node in range(2)))
        self.assertEqual(printed, [["goes on at: 5"]] * 2)

    @needs("optax")
    def test_local_steps_of_optax_are_averaged_and_go_on_with_the_state_of_their_clock(self):
        """Killed with their servers, or these alone, without which they need on_resume."""
        wrong = [r"step\(\): got gradients with mode='worker', expected the parameters alone, .*",
                 r"parameter \['y'\]: got a NoneType, expected an array of floats",
                 r"parameter: got the leaves \['b'\], \['w'\], expected .*\['layer'\]\['w'\], \['y'\]",
                 r"state_dict\(\): got 1 of 3 local steps taken, expected it after the last, where run\.clock has changed"]
        goes_on = ["goes on at: 2", r"refused: load_state_dict\(\): got the state of clock 3, expected 2, where the run goes on",
                   r"refused: load_state_dict\(\): got a state with \[0\]\.nu\['y'\] \(\) where this one has \[0\]\.count \(\), .*"]
        wrong = [f"refused: {line}" for line in wrong]
        for killed, hook, expected in (("all", "hook", goes_on), ("server", "hook", wrong + goes_on), ("server", "none", wrong)):
            with self.subTest((killed, hook)):
                self.run_dir, kept = self.folder / f"run {killed} {hook}", self.folder / f"kept {killed} {hook}"
                self.configure_loop("optimizer: {kind: sgd, lr: 1}, batch_size: 4, total_iterations: 12",
                                    cluster=f"lease: {LEASE:g}s, heartbeat: 200ms, reconnect_timeout: 60s")
                with self.config.open("a", encoding="utf-8") as config:
                    config.write("checkpoint: {every_clocks: 2}\n")
                kept.mkdir()
                os.mkfifo(kept / "release")
                server, loops = self.server(0), [self.loop("local", node, kept, 3, hook) for node in range(2)]
                self.kill_at(2, server, *(loops if killed == "all" else ()))
                server = self.server(0, "--resume")
                if killed == "all":
                    loops = [self.loop("local", node, kept) for node in range(2)]
                self.addCleanup(os.close, os.open(kept / "release", os.O_RDWR))  # no loop waits for us, nor we for it
                if hook == "none":
                    for loop in loops:
                        self.assertEqual(loop.end(), 1)
                        self.assertRegex(loop.errors()[-1], r"RuntimeError: step\(\): the servers have gone back from clock [34] to 2, .*")
                    server.end()
                    printed = [loop.output().splitlines() for loop in loops]
                else:
                    printed = self.assert_as_expected(server, *loops)
                for lines in printed:
                    for line, pattern in zip(lines, expected, strict=True):
                        self.assertRegex(line, f"^{pattern}$")

    def test_what_cannot_be_exchanged_is_refused_by_its_path(self):
        self.configure_loop(self.TRAIN, nodes=1)
        server, loop = self.server(0), self.loop("refused_trees", 0)
        self.assert_ends(loop, 0)
        expected = (r"half: parameter \['w'\]: got bfloat16, expected an array of float32",
                    r"number: parameter \['w'\]: got a float, expected an array of float32",
                    r"none: params: got no leaf, expected at least one",
                    r"branches: trainable: got a tree with \['w'\], expected one like params, or one value",
                    r"mask: trainable: got <class 'dict'>, expected True or False for each leaf",
                    r"frozen: trainable: got no leaf that is, expected at least one",
                    r"factor: lr_factor: got '2', expected a number for each leaf",
                    r"role: role: got 'buffer', expected 'weight', 'bias' or 'norm' for each leaf",
                    r"mode: mode: got 'servers', expected 'server' or 'worker'",
                    r"local: local_steps: got 2, expected 1, or more with mode='worker'",
                    r"rates: lr_factor, decay_factor: got some with mode='worker', expected none: .*",
                    r"average: train\.optimizer\.kind: got adam with mode='worker', expected sgd or momentum: .*",
                    r"world: cluster\.nodes: got 1, expected 3, the WORLD_SIZE of the environment",
                    r"tree: gradient: got the leaves \['w'\], expected \['b'\], \['e'\], \['w'\]",
                    r"shape: gradient \['b'\]: got shape \(2, 3\), expected \(3,\)",
                    r"whole: gradient \['b'\]: got int32, expected an array of floats",
                    r"alone: gradient: got the leaves of none, expected \['b'\], \['e'\], \['w'\]",
                    r"stepped: parameter \['b'\]: got values that are not the round's with mode='server', expected what step\(\) has returned: .*")
        for line, pattern in zip(loop.output().splitlines(), expected, strict=True):
            self.assertRegex(line, f"^{pattern}$")
        self.assertEqual(server.end(), 0, server.errors())  # its loop has ended before the last iteration

    def test_the_example_learns(self):
        launched = self.launch(*self.example("jax_regression"))
        self.assertEqual(launched.end(), 0, launched.errors())
        self.assertLess(float(launched.output().split()[-1]), 0.1)  # 0.03 to 0.065, the more behind the more a node lags


if __name__ == "__main__":
    harness.main()
