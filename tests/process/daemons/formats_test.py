"""Models in and out: what `paceline export` writes is read by the formats' own packages, and what those write begins a run.
Where Python has no such package, those cases are skipped, and say so. See harness.py."""

import json
import re

import harness
from foreign import FormatsTest, needs

# As PyTorch's Conv2d, BatchNorm2d and Linear (formats.py).
TORCH = [{"kind": "conv", "name": "conv", "out": 4, "kernel": 5, "stride": 4, "padding": 0}, {"kind": "batch_norm", "name": "bn"},
         {"kind": "relu"}, {"kind": "flatten", "name": "flat"}, {"kind": "dense", "name": "fc", "out": 10}]

# Every kind but the losses, images and vectors mixed, windows that hang over, weights that are shared.
EVERY_KIND = [
    {"kind": "conv", "name": "c1", "out": 8, "kernel": 3, "stride": 2, "padding": 1},
    {"kind": "batch_norm", "name": "n1"},
    {"kind": "relu", "name": "r1"},
    {"kind": "conv", "name": "c2", "out": 8, "kernel": 3, "padding": 2, "dilation": 2, "groups": 4, "bias": False},
    {"kind": "batch_norm", "name": "n2", "affine": False, "debias": True},
    {"kind": "scale", "name": "s2"},
    {"kind": "add", "name": "a2", "from": ["r1", "s2"], "coefficients": [0.5, 2]},
    {"kind": "lrn", "name": "l1", "size": 5, "alpha": 0.5, "beta": 0.75, "k": 2},
    {"kind": "average_pool", "name": "ap", "kernel": 3, "stride": 2, "padding": 1, "window_end": "ceil"},
    {"kind": "average_pool", "name": "aq", "from": ["l1"], "kernel": 3, "stride": 2, "padding": 1},
    {"kind": "pool", "name": "mp", "from": ["l1"], "kernel": 3, "stride": 2, "window_end": "ceil"},
    {"kind": "pool", "name": "mq", "from": ["l1"], "kernel": 3, "stride": 2, "padding": 1},
    {"kind": "lrn", "name": "l2", "from": ["mp"], "size": 3, "alpha": 0.5, "beta": 0.75, "region": "within"},
    {"kind": "slice", "name": "half", "from": ["l2"], "part": 1, "parts": 2},
    {"kind": "dense", "name": "d1", "from": ["half"], "out": 8},
    {"kind": "tanh", "name": "t1"},
    {"kind": "global_average_pool", "name": "g1", "from": ["aq"]},
    {"kind": "global_average_pool", "name": "g2", "from": ["mq"]},
    {"kind": "multiply", "name": "m1", "from": ["g1", "t1", "g2"]},
    {"kind": "maximum", "name": "x1", "from": ["g1", "g2"]},
    {"kind": "sigmoid", "name": "sg"},
    {"kind": "flatten", "name": "f1", "from": ["ap"]},
    {"kind": "dense", "name": "d2", "out": 8, "bias": False},
    {"kind": "batch_norm", "name": "n3"},
    {"kind": "scale", "name": "s3", "bias": False},
    {"kind": "concat", "name": "all", "from": ["m1", "sg", "s3", "g1"]},
    {"kind": "dropout", "name": "drop", "rate": 0.5},
    {"kind": "dense", "name": "e1", "out": 32},
    {"kind": "dense", "name": "e2", "out": 32, "weights_of": "e1"},
    {"kind": "dense", "name": "out", "out": 10},
]


@needs("numpy", "safetensors")
class Safetensors(FormatsTest):
    """Both ways."""

    def test_a_run_s_model_is_what_the_package_reads(self):
        summary = self.train(TORCH)
        printed = self.ask("read_safetensors", self.export("safetensors"), self.run_dir / "model.bin")
        self.assertEqual(json.loads(printed.partition("metadata: ")[2]),
                         {"format": "pt", "model": "layers", "version": str(summary["final_version"])})


@needs("numpy", "safetensors", "torch")
class StateDicts(FormatsTest):
    """Of PyTorch, into a run and out of it."""

    def test_a_state_dict_begins_a_run_and_its_model_is_one(self):
        begin = self.folder / "begin.safetensors"
        self.ask("write_state_dict", begin)
        # A step that changes nothing but the running statistics, of which a share of nearly none is taken.
        layers = [{**layer, "momentum": 1e-30} if layer["kind"] == "batch_norm" else layer for layer in TORCH]
        self.train(layers, f"train.init_from={begin}", "train.optimizer.lr=1e-30")
        log = (self.run_dir / "worker-0.log").read_text(encoding="utf-8")
        self.assertRegex(log, re.escape("8 of 8 tensors fit; not used: other [3], bn.num_batches_tracked I64 []"))
        printed = self.ask("load_state_dict", self.export("safetensors"))
        self.assertEqual(printed.splitlines(), ["matched: <All keys matched successfully>", "alike: True"])

    def test_the_gradient_of_a_residual_network_is_pytorchs_and_so_is_what_its_norms_measure(self):
        self.assertLess(float(re.search("worst: (.*)", self.ask("residual_gradient"))[1]), 1e-5)

    def test_running_means_that_were_weighted_leave_as_pytorch_reads_them(self):
        layers = [{**layer, "debias": True, "momentum": 0.01} if layer["kind"] == "batch_norm" else layer for layer in TORCH]
        self.train(layers)
        printed = self.ask("run_state_dict", self.export("safetensors"), self.run_dir / "model.bin", json.dumps(layers))
        self.assertIn("unused: bn.running_weight", printed)
        self.assertLess(float(re.search("worst: (.*)", printed)[1]), 1e-4)


@needs("numpy", "onnx", "onnxruntime")
class Onnx(FormatsTest):
    """Judged by onnxruntime and by our own loop."""

    def test_every_kind_of_layer_is_computed_alike(self):
        self.train(EVERY_KIND, "train.optimizer.lr=0.1", iterations=40)
        printed = self.ask("run_onnx", self.export("onnx"), self.run_dir / "model.bin", json.dumps(EVERY_KIND), '["n2.running_weight"]')
        self.assertLess(float(re.search("worst: (.*)", printed)[1]), 1e-4)
        self.assertGreater(float(re.search("spread: (.*)", printed)[1]), 2)

    def test_losses_are_left_out_and_what_they_read_is_given_out(self):
        layers = TORCH[:-1] + [
            {"kind": "dense", "name": "side", "out": 10}, {"kind": "softmax_loss", "name": "l1", "loss_weight": 0.3},
            {"kind": "dense", "name": "number", "from": ["flat"], "out": 1}, {"kind": "euclidean_loss", "name": "l2", "loss_weight": 0.01},
            {"kind": "dense", "name": "code", "from": ["flat"], "out": 4}, {"kind": "contrastive_loss", "name": "l3", "from": ["code", "code"],
                                                                          "loss_weight": 0.01},
            {"kind": "dense", "name": "odds", "from": ["flat"], "out": 1}, {"kind": "sigmoid_loss", "name": "l4", "from": ["odds", "number"],
                                                                            "loss_weight": 0.01},
            {**TORCH[-1], "from": ["flat"]}, {"kind": "softmax_loss", "name": "l5"}]
        self.train(layers)
        alone = TORCH[:-1] + [{"kind": "dense", "name": "side", "out": 10}]
        for layers, output in ((alone, "side.output"), (TORCH, "fc.output")):
            printed = self.ask("run_onnx", self.export("onnx"), self.run_dir / "model.bin", json.dumps(layers), "[]", output)
            self.assertIn("outputs: side.output number.output code.output odds.output fc.output", printed)
            self.assertLess(float(re.search("worst: (.*)", printed)[1]), 1e-4)

    def test_names_that_meet_are_refused(self):
        for kind, name in (("flatten", "conv.weight"), ("relu", "fc.output")):
            with self.subTest(name):
                self.run_dir = self.folder / kind
                self.train([{**layer, "name": name} if layer["kind"] == kind else layer for layer in TORCH])
                printed = self.paceline("export", self.run_dir, "--format", "onnx", "--out", self.folder / "x.onnx")
                self.assertEqual(printed.returncode, 2, printed)
                self.assertRegex(printed.stderr, rf"^paceline export: .*x\.onnx: '{name}' would be the name of two values .*\n$")

    def test_what_cannot_be_written_is_refused(self):
        self.train(TORCH)
        printed = self.paceline("export", self.run_dir, "--format", "onnx", "--out", self.folder / "none/x.onnx")
        self.assertEqual(printed.returncode, 2, printed)
        self.assertRegex(printed.stderr, "^paceline export: .*/none.*\n$")
        other = (self.run_dir / "config.yaml").read_text(encoding="utf-8").replace("kernel: 5", "kernel: 3")
        (self.run_dir / "config.yaml").write_text(other, encoding="utf-8")
        for arguments, complaint in (
                ((self.run_dir, "--format", "onnx", "--out", self.folder / "x.onnx"),
                 r"paceline export: .*model\.bin holds another network: .*; a model of your own is exported by .*"),
                ((self.folder / "none", "--format", "safetensors", "--out", self.folder / "x"), r"paceline export: .*none.*")):
            printed = self.paceline("export", *arguments)
            self.assertEqual(printed.returncode, 2, printed)
            self.assertRegex(printed.stderr, f"^{complaint}\n$")


if __name__ == "__main__":
    harness.main()
