"""Folders of pictures (data.kind: images), through the daemons."""

import shutil

import harness
import pictures
from harness import DaemonTest


class Images(DaemonTest):
    """A server and two nodes that learn from pictures of three hundred classes."""

    CLASSES, SIDE = 300, 8

    def setUp(self):
        super().setUp()
        self.pictures = self.folder / "pictures"
        self.files = pictures.write_folder(self.pictures, self.CLASSES, self.SIDE)

    def configure_images(self, iterations, *, parts="anew"):
        self.config.write_text(f"""\
run: {{seed: 3, out: {self.run_dir}}}
cluster: {{nodes: 2, threads_per_node: 1, endpoints: ["{self.endpoints[0]}"], start_timeout: {harness.START_TIMEOUT}}}
train:
  model: layers
  layers: [{{kind: flatten}}, {{kind: dense, out: {self.CLASSES}}}]
  optimizer: {{kind: adam, lr: 0.01}}
  batch_size: 50
  total_iterations: {iterations}
data:
  kind: images
  path: {self.pictures}
  classes: {self.CLASSES}
  crop: {{size: {self.SIDE}, resize: {self.SIDE}}}
  mean: [127.5, 127.5, 127.5]
  deviation: [127.5, 127.5, 127.5]
  parts: {parts}
  loader_threads: 2
""", encoding="utf-8")

    def run_to_the_end(self, *arguments, of_nodes=()):
        """With what all are told beside the configuration, and each node."""
        daemons = [self.server(0, *arguments), *(self.node(i, *arguments, *of_nodes[i:i + 1]) for i in range(2))]
        self.assert_succeed(daemons)
        return self.summary()

    def test_three_hundred_classes_are_learned_and_a_broken_picture_costs_no_run(self):
        self.configure_images(240)  # 40 epochs
        pictures.break_pixels(self.files[7])
        self.files[8].write_bytes(b"")
        (self.files[8].parent / "another.png").write_bytes(pictures.png(8, 8, pictures.noise(8, 8)))
        summary = self.run_to_the_end()
        self.assertGreater(summary["test_accuracy"], 0.98)  # all but the class whose picture is broken
        self.assertEqual(summary["samples_left_out"], 2)

    def test_with_fixed_parts_no_node_reads_the_other_one_s_pictures(self):
        self.configure_images(48, parts="fixed")  # 8 epochs
        for node in range(2):  # each has a folder in which the other one's pictures cannot be decoded
            mine = self.folder / f"pictures-{node}"
            shutil.copytree(self.pictures, mine)
            for file in (*self.files[1 - node::2], self.files[20 + node]):  # and one of its own
                pictures.break_pixels(mine / file.relative_to(self.pictures))
        summary = self.run_to_the_end(of_nodes=[f"data.path={self.folder}/pictures-{node}" for node in range(2)])
        self.assertEqual(summary["iterations"], 48)
        self.assertEqual(summary["samples_left_out"], 2)  # each node's own, and no picture of the other one's in its place

    def test_one_thread_without_a_cache_or_four_and_a_resume_end_in_the_same_bits(self):
        self.configure_images(48)
        augmented = ("sync.policy=bsp", "data.augment=true", "data.crop.kind=place", "data.crop.padding=2",
                     "checkpoint.every_clocks=6")
        self.run_to_the_end(*augmented, "data.loader_threads=1", "data.cache=0")
        model = (self.run_dir / "model.bin").read_bytes()
        self.run_dir = self.folder / "again"
        again = (*augmented, f"run.out={self.run_dir}", "data.loader_threads=4", "data.prefetch_batches=5")
        self.run_to_the_end(*again, "train.total_iterations=24")
        self.run_to_the_end(*again, "--resume")
        self.assertEqual((self.run_dir / "model.bin").read_bytes(), model)

    def test_the_bench_names_the_part_that_holds_back(self):
        self.configure_images(48)
        bench = self.start(harness.BIN / "paceline", "data", "bench", self.config, "--seconds", "0.1",
                           "data.path=" + str(self.pictures))
        self.assert_ends(bench, 0)
        printed = bench.output()
        self.assertIn("300 pictures of 0 KiB on average", printed)
        for line in (*(rf"  {part} +\d+ +\d+ %" for part in ("read", "decode", "resize", "normalize", "all")),
                     r"loader, 2 threads, 2 mini-batches of 50 ahead: \d+ images/s, \d+ a second of processor time",
                     "holds back: (read|decode|resize|normalize)"):
            self.assertRegex(printed, line)
        slow = self.start(harness.BIN / "paceline", "data", "bench", self.config, "--seconds", "0.1", "--step-ms", "2000",
                          "data.path=" + str(self.pictures))
        self.assert_ends(slow, 0)
        self.assertIn("holds back: the training step, of 2000 ms", slow.output())


if __name__ == "__main__":
    harness.main()
