"""Training loops that are not ours, through libpaceline.so: in C (examples/c_loop), and in Python (python/) over numpy
(foreign_loops.py; torch_test.py and jax_test.py have PyTorch's and JAX's). Where Python has no numpy, those are skipped, and say so."""

import os
import re
import signal
import subprocess
import zipfile

import harness
import pictures
from foreign import PYTHON, ForeignTest, needs


@needs("numpy", "scikit_build_core")
class Wheel(ForeignTest):
    """python/pyproject.toml, with a library that is built already."""

    def setUp(self):
        super().setUp()
        self.environment = {key: value for key, value in os.environ.items() if key not in ("PACELINE_LIBRARY", "PYTHONPATH")}

    def run_well(self, *command, **more):
        done = subprocess.run(list(map(str, command)), env={**self.environment, **more}, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout.strip()

    def wheel(self, *settings, **more):
        """Its path, and its files but for what is said of them, which lie in site/ then."""
        self.run_well(PYTHON, "-m", "pip", "wheel", "--no-deps", "--no-index", "--no-build-isolation", harness.SOURCE / "python",
                      "-w", self.folder, *settings, **more)
        wheel, = self.folder.glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(self.folder / "site")
            return wheel, [name for name in archive.namelist() if ".dist-info/" not in name]

    def package(self):
        package = harness.SOURCE / "python"
        return [str(file.relative_to(package)) for pattern in ("*.py", "py.typed") for file in package.rglob(pattern)]

    def import_it(self, **more):
        return self.run_well(PYTHON, "-c", "import paceline; print(paceline.version(), paceline._library.library._name)",
                             PYTHONPATH=str(self.folder / "site"), **more)

    def test_a_wheel_is_for_every_python_and_brings_the_package_and_its_library(self):
        # In the place of the whole project one that installs what it would.
        self.run_well("cmake", "--install", harness.BIN.parent, "--component", "python", "--prefix", self.folder / "built")
        (project := self.folder / "project").mkdir()
        (project / "CMakeLists.txt").write_text("cmake_minimum_required(VERSION 3.15)\nproject(built NONE)\n"
                                                "add_custom_target(paceline_shared)\ninstall(DIRECTORY ../built/ DESTINATION . "
                                                "COMPONENT python)\n", encoding="utf-8")
        wheel, files = self.wheel(f"--config-settings=cmake.source-dir={project}")
        self.assertRegex(wheel.name, r"^paceline-[0-9.]+-py3-none-linux_\w+\.whl$")
        self.assertEqual(sorted(files), sorted(["paceline/libpaceline.so.0", *self.package()]))
        self.assertEqual(self.import_it(), f"{wheel.name.split('-')[1]} {self.folder}/site/paceline/libpaceline.so.0")

    def test_a_library_that_is_installed_is_taken_and_none_is_built(self):
        self.run_well("cmake", "--install", harness.BIN.parent, "--component", "library", "--prefix", self.folder / "installed")
        library, = (self.folder / "installed").rglob("libpaceline.so.0")
        where = {"LD_LIBRARY_PATH": str(library.parent)}
        wheel, files = self.wheel(**where)
        self.assertEqual(sorted(files), sorted(self.package()))
        self.assertEqual(self.import_it(**where), f"{wheel.name.split('-')[1]} libpaceline.so.0")


class Installed(ForeignTest):
    """cmake --install, from outside."""

    def test_another_project_finds_the_library_by_cmake_and_by_pkg_config(self):
        def run(*command, **more):
            done = subprocess.run(list(map(str, command)), env={**os.environ, **more}, capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            return done.stdout.split()
        root, source = self.folder / "installed", self.folder / "project"
        source.mkdir()
        run("cmake", "--install", harness.BIN.parent, "--component", "library", "--prefix", root)
        counting = harness.SOURCE / "examples/c_loop/counting.c"
        (source / "CMakeLists.txt").write_text("cmake_minimum_required(VERSION 3.15)\nproject(other LANGUAGES C)\n"
                                               "find_package(paceline 0.1 REQUIRED)\n"
                                               f"add_executable(by_cmake {counting})\n"
                                               "target_link_libraries(by_cmake paceline::paceline)\n", encoding="utf-8")
        run("cmake", "-S", source, "-B", source, f"-DCMAKE_PREFIX_PATH={root}")
        run("cmake", "--build", source)
        found, = root.rglob("paceline.pc")
        flags = run("pkg-config", "--cflags", "--libs", "paceline", PKG_CONFIG_PATH=str(found.parent))
        run("cc", "-std=c11", counting, "-o", source / "by_pkg_config", *flags)
        os.environ["LD_LIBRARY_PATH"] = str(found.parent.parent)
        self.addCleanup(os.environ.pop, "LD_LIBRARY_PATH")
        config = (harness.SOURCE / "examples/c_loop/counting.yaml", 0, f"cluster.endpoints=['{self.endpoints[0]}']", "cluster.nodes=1")
        for program in ("by_cmake", "by_pkg_config"):
            out = f"run.out={self.folder}/{program}"
            server = self.start(harness.BIN / "paceline-server", *config[:1], *config[2:], out)
            self.assert_end_quietly((self.start(source / program, *config, out), server))


class CLoop(ForeignTest):
    """The C interface."""

    def test_a_loop_in_c_reads_what_it_has_written(self):
        for policy in (["sync.policy=bsp", "sync.threshold=null"], ["sync.policy=ssp"]):
            with self.subTest(policy):
                arguments = (f"run.out={self.folder}/{policy[0]}", f"cluster.endpoints=['{self.endpoints[0]}']", *policy)
                config = harness.SOURCE / "examples/c_loop/counting.yaml"
                server = self.start(harness.BIN / "paceline-server", config, *arguments)
                printed = self.folder / "printed.yaml"  # as a run's config.yaml has it: with each key, those of a model too
                printed.write_text(self.paceline("check-config", config, "--print", *arguments).stdout, encoding="utf-8")
                nodes = [self.start(harness.BIN / "paceline-example-c-loop", printed, node) for node in range(2)]
                self.assert_end_quietly((server, *nodes))
                shown = self.paceline("export", self.folder / policy[0], "--format", "safetensors", "--out", self.folder / "model.safetensors")
                self.assertRegex(shown.stdout, r"version \d+ of custom model, \d+ parameters\n$")

    def test_a_wrong_configuration_is_an_error_and_no_end(self):
        config = harness.SOURCE / "examples/c_loop/counting.yaml"
        loop = harness.BIN / "paceline-example-c-loop"
        for arguments, complaint in (
                ((0, "cluster.threads_per_node=2"), r"cluster\.threads_per_node: .*, got 2, expected 1 .*"),
                ((0, "train.precision=bf16"), r"train\.precision: a training loop computes by itself, got bf16, expected fp32"),
                ((0, "train.model=resnet20"), r"train\.model: the training loop brings the model, got resnet20, expected none"),
                ((0, "train.model=cifar_cnn_small"), r"command line: train\.model: the training loop brings the model, expected none"),
                ((0, "train.dropout=0.5"), r"train\.dropout: .*, got 0\.5, expected 0"),
                ((0, "train.backend=reference"), r"train\.backend: .*, got reference, expected onednn"),
                ((0, "train.device=cuda"), r"train\.device: .*, got cuda, expected cpu"),
                ((0, "train.eval_samples=100"), r"train\.eval_samples: .*, got 100, expected 0"),
                ((0, "train.optimizer.lr=-1"), r"command line: train\.optimizer\.lr: .*, got .*, expected .*"),
                ((2,), r"command line: --node: no such node, got 2, expected 0 to 1 .*")):
            with self.subTest(arguments):
                self.assert_ends(self.start(loop, config, *arguments, f"run.out={self.run_dir}"), 1,
                                 "counting: open: " + complaint)

    def test_the_library_exports_its_functions_and_nothing_else(self):
        library = harness.BIN.parent / "lib/libpaceline.so"
        symbols = subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True).stdout
        headers = [(harness.SOURCE / "include/paceline" / name).read_text(encoding="utf-8") for name in ("data.h", "paceline.h")]
        declared = re.findall(r"PACELINE_API \w[\w* ]*?(paceline_\w+)\(", "".join(headers))
        self.assertEqual(sorted(line.split()[-1] for line in symbols.splitlines()), sorted(declared))


@needs("numpy")
class PythonLoop(ForeignTest):
    """The Python package, over numpy."""

    TRAIN = "optimizer: {kind: sgd, lr: 1}, batch_size: 1, total_iterations: 60"

    def test_a_loop_reads_what_it_has_written(self):
        self.configure_loop(self.TRAIN, sync="{policy: ssp, threshold: 2}")
        server, nodes = self.server(0), [self.loop("counting", node) for node in range(2)]
        for node in nodes:
            self.assert_ends(node, 0)
            self.assertIn("over: True", node.output())
        self.assert_ends(server, 0)
        self.assertEqual((self.summary()["iterations"], self.summary()["test_accuracy"]), (60, None))

    def test_what_a_loop_may_not_say_is_refused_and_costs_nothing(self):
        self.configure_loop("optimizer: {kind: sgd, lr: 1}, batch_size: 1, total_iterations: 1", nodes=1)
        server, loop = self.server(0), self.loop("misused", 0)
        self.assert_ends(loop, 0)
        wrong, not_now = "INVALID_ARGUMENT", "FAILED_PRECONDITION"
        expected = (f"empty: {wrong}: .*the layout has no tensor", f"trainable: {wrong}: tensor 'w': trainable: got 3, expected 0, 1 or 2",
                    f"role: {wrong}: no such role: got 9, expected 0 to 3", f"size: {wrong}: .*'w'.*", f"factor: {wrong}: .*'w'.*-1.*",
                    f"name: {wrong}: .+", "w: ok", f"again: {wrong}: .*'w'.*", f"early: {not_now}: paceline_begin: .* comes first",
                    f"short: {wrong}: .*got 2 initial values, expected 3.*", "start: ok", f"late: {not_now}: tensor 'v' comes after the start.*",
                    f"twice: {not_now}: .*has started already", f"none: {not_now}: no round is under way.*", "begin: ok",
                    f"second: {not_now}: .*a round is under way.*", f"beyond: {wrong}: .*from element 4, expected one in \\[0, 3\\]",
                    f"copy: {wrong}: .*got 2 floats from element 2 on, expected some within \\[0, 3\\]",
                    f"samples: {wrong}: .*0 correct of 0 samples.*", f"correct: {wrong}: .*2 correct of 1 samples.*", "final: ok",
                    f"left: {wrong}: .*got elements up to 2, expected none from 1 on, which are final", "finish: ok",
                    f"over: {not_now}: no round is under way.*")
        shown = loop.output().splitlines()
        self.assertEqual(len(shown), len(expected), shown)
        for line, pattern in zip(shown, expected):
            self.assertRegex(line, f"^{pattern}$")
        self.assert_ends(server, 0)

    def test_a_model_in_two_stages_is_the_one_in_one_piece(self):
        self.configure_loop("optimizer: {kind: sgd, lr: 0.05}, batch_size: 4, total_iterations: 40")
        with open(self.config, "a", encoding="utf-8") as config:
            config.write("pipeline: {stages: 2, micro_batches: 3, balance: loop, schedule: 1f1b}\n")
        server, nodes = self.server(0), [self.loop("in_stages", node) for node in range(2)]
        for node in nodes:
            self.assert_ends(node, 0)
            self.assertLess(float(re.search("worst: (.*)", node.output())[1]), 1e-5)
        self.assert_ends(server, 0)
        self.assertGreater(min(self.summary()["pipeline"]["peak_activation_bytes"]), 0)

    def test_the_built_in_network_is_a_model_for_a_loop_without_one(self):
        self.configure_loop("optimizer: {kind: sgd, lr: 1}, batch_size: 16, total_iterations: 400")
        server, nodes = self.server(0), [self.loop("built_in", node) for node in range(2)]
        for node in nodes:
            self.assert_ends(node, 0)
            self.assertEqual(node.output(), "classes: 2")
        self.assert_ends(server, 0)
        evaluate = ("import numpy, paceline, sys; made = paceline.Network([{'kind': 'dense', 'out': 8}, {'kind': 'batch_norm'}, "
                    "{'kind': 'relu'}, {'kind': 'dense', 'out': 2}], 2)\n"
                    "x = numpy.random.default_rng(9).random((1000, 2))\n"
                    "print(made.evaluate(made.flat(paceline.read_model(sys.argv[1])), x, x[:, 0] > x[:, 1])[1])")
        measured = self.start(PYTHON, "-c", evaluate, self.run_dir / "model.bin")
        self.assert_ends(measured, 0)
        self.assertGreater(int(measured.output()), 950)

    def test_a_layout_that_differs_names_both_tensors(self):
        self.configure_loop(self.TRAIN)
        server, first = self.server(0), self.loop("of_shape", 0, "fc.weight", 4, 3)
        self.wait_for_log("server.log", "node 0 joined")
        second = self.loop("of_shape", 1, "fc.weight", 3, 4)
        self.assertEqual(second.end(), 1)
        self.assertRegex(second.errors()[-1], r"paceline\.worker\.Error: .*node 1: parameter layout 0x.* as node 0 has: tensor 0: "
                         r"got 'fc\.weight' \(3, 4\), expected 'fc\.weight' \(4, 3\)")
        first.process.terminate()
        server.process.terminate()
        first.end(), server.end()

    def test_a_loop_that_ends_otherwise_is_named_and_the_others_go_on(self):
        for how, status, shown in (("raises", 1, "ArithmeticError: no gradient today"), ("is killed", -9, ""),
                                  ("is interrupted", -2, "interrupted"), ("breaks", 0, "its training loop has ended"),
                                  ("hangs", 1, r"no exchange for 0\.1 s \(hang_timeout\)")):
            with self.subTest(how):
                self.run_dir = self.folder / how.replace(" ", "_")
                self.configure_loop(self.TRAIN, cluster="lease: 60s, heartbeat: 200ms")
                server = self.server(0)
                loops = self.loop("ends_at", 0, -1, "never"), self.loop("ends_at", 1, 5, how)
                self.assertIn(loops[1].end(), (status, status % 256, 130 if status == -2 else status))
                self.assert_ends(loops[0], 0)
                self.assertEqual(server.end(), 0)
                gone = "has finished early" if how == "breaks" else "lost"
                self.assertRegex((self.run_dir / "server.log").read_text(encoding="utf-8"), f"node 1 {gone}: .*{shown}")
                self.assertEqual(self.summary()["lost_nodes"], int(gone == "lost"))
                self.assertEqual(any("in ends_at" in line for line in loops[1].errors()), how in ("raises", "is interrupted", "hangs"))

    def test_a_loop_that_ends_by_its_own_count_is_told_of_a_stop_behind_its_last_round(self):
        self.configure_loop(self.TRAIN, nodes=1, cluster="lease: 600s")
        release = self.folder / "release"
        os.mkfifo(release)
        server, loop = self.server(0), self.loop("ends_by_itself", 0, release)
        loop.wait_for_line("in its last round")
        server.send(signal.SIGTERM)
        self.wait_for_log("server.log", "stopping: ")
        release.open("w").close()
        self.wait_for_log("server.log", "the run is over: stopped")
        release.open("w").close()
        self.assertEqual(loop.end(), 0)
        self.assertEqual(loop.output(), "well: False stopped: True")
        self.assertEqual(server.end(), 1)

    def test_a_loop_that_is_watched_may_fork(self):
        self.configure_loop(self.TRAIN, nodes=1)
        server, loop = self.server(0), self.loop("forks", 0)
        self.assertEqual((loop.end(), server.end()), (1, 1))
        self.assertTrue(any("in forks" in line for line in loop.errors()), loop.errors())

    def test_nan_ends_the_run_and_names_worker_and_tensor(self):
        self.configure_loop(self.TRAIN, nodes=1)
        server, loop = self.server(0), self.loop("ends_at", 0, 5, "says nan")
        self.assertEqual((loop.end(), server.end()), (1, 1))
        self.assertRegex(loop.errors()[-1], r"paceline\.worker\.Error: .*worker 0\.0 at clock 5: not finite: gradient of counts is nan at .*")

    def test_another_copy_of_what_the_library_is_made_of_may_be_in_the_process(self):
        self.configure_loop(self.TRAIN, nodes=1)
        other = self.folder / "libother.so"
        (source := self.folder / "other.c").write_text(
            "#include <stdlib.h>\nint asked;\nvoid *zmq_ctx_new(void) { ++asked; return NULL; }\n"
            "int posix_memalign(void **at, size_t to, size_t size) { return (*at = aligned_alloc(to, size)) == NULL; }\n", encoding="utf-8")
        subprocess.run(["cc", "-shared", "-fPIC", source, "-o", other], check=True)
        beside = ("import ctypes, sys; other = ctypes.CDLL(sys.argv[1], mode=ctypes.RTLD_GLOBAL)\n"
                  "assert ctypes.CDLL(None).zmq_ctx_new() == 0\n"  # of those who ask for one, all are given this one
                  "import numpy, paceline\n"
                  "with paceline.Worker(sys.argv[2], node=0) as worker:\n"
                  "    worker.add_tensor('w', (1,)); worker.start(numpy.zeros(1, numpy.float32))\n"
                  "    for round in worker: round.gradient[:] = 0; worker.finish()\n"
                  "print('asked:', ctypes.c_int.in_dll(other, 'asked').value)")
        server, loop = self.server(0), self.start(PYTHON, "-c", beside, other, self.config)
        self.assert_ends(loop, 0)
        self.assert_ends(server, 0)
        self.assertEqual(loop.output(), "asked: 1")
        # Whose memory is not libc's has the library bound as others are.
        bound = "import os; from paceline import _library; print(_library._binding() & os.RTLD_DEEPBIND)"
        replaced = subprocess.run([PYTHON, "-c", bound], env={**os.environ, "LD_PRELOAD": str(other)}, capture_output=True, text=True, check=True)
        self.assertEqual(replaced.stdout, "0\n")

    def test_why_the_final_model_was_not_evaluated_is_said(self):
        self.configure_loop(self.TRAIN, nodes=1)
        every = "train.eval_every_clocks=30"
        server, loop = self.server(0, every), self.loop("ends_at", 0, -1, "cannot measure", every)
        self.assertEqual((loop.end(), server.end()), (1, 1))
        wrong = r"got 0\.5, expected \(mean loss, correct, samples\)"
        self.assertRegex(loop.errors()[-1], rf"paceline\.worker\.Error: the final model, .*: ValueError: evaluate: {wrong}")
        self.assertRegex((self.run_dir / "worker-0.log").read_text(encoding="utf-8"),
                         rf"evaluate: ZeroDivisionError: division by zero\n(.*\n)*.* evaluate: ValueError: evaluate: {wrong}\n")


@needs("numpy")
class PythonData(ForeignTest):
    """paceline.data, over folders of pictures of three hundred classes."""

    def setUp(self):
        super().setUp()
        self.pictures = self.folder / "pictures"
        self.files = pictures.write_folder(self.pictures, 300)

    def configure_data(self, iterations=24, data=""):
        self.configure_loop(f"optimizer: {{kind: sgd, lr: 1}}, batch_size: 25, total_iterations: {iterations}")
        with self.config.open("a", encoding="utf-8") as config:
            config.write(f"data: {{kind: images, path: {self.pictures}, classes: 300, crop: {{size: 8, resize: 8}}, "
                         f"mean: [0, 0, 0], deviation: [1, 1, 1], loader_threads: 2, {data}}}\n")

    def test_two_nodes_see_each_picture_once_an_epoch_with_its_own_label(self):
        self.configure_data()  # two epochs
        daemons = [self.server(0), *(self.loop("pictures", node) for node in range(2))]
        self.assert_end_quietly(daemons)
        self.assertIn("seen: 2 to 2 times", daemons[1].output())

    def test_without_a_run_the_mini_batches_are_those_of_the_run_s_nodes(self):
        self.configure_data()
        loop = self.loop("no_run", 0)
        self.assert_ends(loop, 0)
        self.assertIn("alike: True", loop.output())

    def test_what_cannot_be_is_an_error_and_a_broken_picture_is_named(self):
        self.configure_data()
        pictures.break_pixels(self.files[3])
        loop = self.loop("faults", 0)
        self.assertEqual(loop.end(), 0, loop.errors())
        shown = loop.output()
        for line in (rf"warned: picture {self.files[3]} is left out: .*",
                     "left out: 1",
                     r"position: paceline_data_train: got 25 samples from -1 on, expected .*",
                     r"node: paceline_data_open: no such node, got 2, expected 0 to 1 \(cluster\.nodes\)",
                     r"parts: data\.parts: fixed, and '.*' has 300 training samples, expected at least one for each of 301 nodes",
                     r"threads: cluster\.threads_per_node: a training loop is one worker, got 2, .*",
                     r"pool: train\.share: pool gives .*",
                     r"classes: data folder '.*' has 300 folders of classes, expected data\.classes, 299",
                     r"closed: the data are closed"):
            self.assertRegex(shown, line)


@needs("numpy", "torchvision")
class TorchvisionPixels(ForeignTest):
    """What an evaluation sees, beside Pillow's and torchvision's."""

    def test_resized_cropped_and_normalised_pictures_are_within_a_level(self):
        folder = self.folder / "pictures"
        self.config.write_text(f"data: {{kind: images, path: {folder}, classes: 2}}\n", encoding="utf-8")
        loop = self.loop("pixels", 0, folder)
        self.assert_ends(loop, 0)
        self.assertLessEqual(float(re.search("worst: (.*) of 255", loop.output())[1]), 1.001)


@needs("numpy", "torch")
class TorchData(ForeignTest):
    """paceline.data and PyTorch."""

    def test_torch_takes_the_arrays_as_they_are(self):
        folder = self.folder / "pictures"
        pictures.write_folder(folder, 3, each=4)
        self.config.write_text(f"data: {{kind: images, path: {folder}, classes: 3, crop: {{size: 8, resize: 8}}}}\n"
                               "train: {batch_size: 5}\n", encoding="utf-8")
        loop = self.loop("tensors", 0)
        self.assert_ends(loop, 0)
        self.assertIn("shared: True", loop.output())

    def test_the_example_trains(self):
        config = harness.SOURCE / "examples/torch_images"
        arguments = (f"run.out={self.run_dir}", f"cluster.endpoints=['{self.endpoints[0]}']", "train.total_iterations=200", "train.optimizer.lr=0.05")
        nodes = [self.start(PYTHON, config / "train.py", self.data, "--node", node, *arguments) for node in range(2)]
        server = self.start(harness.BIN / "paceline-server", config / "images.yaml", *arguments)
        self.assert_end_quietly((*nodes, server))
        # Of ten classes. Running statistics, which tests see, are young after so few steps.
        learnt = (self.run_dir / "curve.csv").read_text(encoding="utf-8").splitlines()
        self.assertGreater(float(dict(zip(learnt[0].split(","), learnt[-1].split(",")))["train_accuracy"]), 0.2)
        self.assertGreater(self.summary()["test_accuracy"], 0)


if __name__ == "__main__":
    harness.main()
