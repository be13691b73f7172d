"""A Caffe net through the daemons, and what it leaves read by others: protobuf's own Python package (PyPI: protobuf), with
messages that are described here by Caffe's field numbers. Skipped where that package is not there. See harness.py."""

import importlib.util
import json
import struct
import unittest

import harness
from harness import DaemonTest

NET = """
layer { name: "d" type: "Data" top: "data" top: "label" include { phase: TRAIN } transform_param { scale: 0.0039 }
  data_param { source: "x" batch_size: 16 } }
layer { name: "d" type: "Data" top: "data" top: "label" include { phase: TEST } transform_param { scale: 0.0039 }
  data_param { source: "x" batch_size: 20 } }
layer { name: "conv" type: "Convolution" bottom: "data" top: "conv" param { lr_mult: 1 }
  convolution_param { num_output: 4 kernel_size: 5 stride: 4 bias_term: false weight_filler { type: "xavier" } } }
layer { name: "norm" type: "BatchNorm" bottom: "conv" top: "conv" batch_norm_param { moving_average_fraction: 0.9 } }
layer { name: "scale" type: "Scale" bottom: "conv" top: "conv" scale_param { bias_term: true } }
layer { name: "relu" type: "ReLU" bottom: "conv" top: "conv" }
layer { name: "side" type: "InnerProduct" bottom: "conv" top: "side"
  inner_product_param { num_output: 10 weight_filler { type: "xavier" } } }
layer { name: "side/loss" type: "SoftmaxWithLoss" bottom: "side" bottom: "label" top: "side/loss" loss_weight: 0.3 }
layer { name: "out" type: "InnerProduct" bottom: "conv" top: "out"
  inner_product_param { num_output: 10 weight_filler { type: "xavier" } } }
layer { name: "accuracy" type: "Accuracy" bottom: "out" bottom: "label" top: "accuracy" include { phase: TEST } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "out" bottom: "label" top: "loss" }
"""
SOLVER = """
net: "net.prototxt" base_lr: 0.01 momentum: 0.9 weight_decay: 0.001 lr_policy: "poly" power: 1 max_iter: 20
clip_gradients: 10 test_iter: 5 test_interval: 10 random_seed: 3
"""

# Message: field: number, type (a message's name, or of FieldDescriptorProto), whether it is repeated. src/caffe/proto/caffe.proto.
FIELDS = {
    "BlobShape": {"dim": (1, "int64", True)},
    "BlobProto": {"data": (5, "float", True), "shape": (7, "BlobShape", False)},
    "BatchNormParameter": {"moving_average_fraction": (2, "float", False)},
    "ScaleParameter": {"bias_term": (4, "bool", False)},
    "LayerParameter": {"name": (1, "string", False), "type": (2, "string", False), "blobs": (7, "BlobProto", True),
                       "batch_norm_param": (139, "BatchNormParameter", False), "scale_param": (142, "ScaleParameter", False)},
    "NetParameter": {"name": (1, "string", False), "layer": (100, "LayerParameter", True)},
}


def net_parameter():
    """The class of NetParameter, as protobuf makes it of the table."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
    file = descriptor_pb2.FileDescriptorProto(name="caffe_of_the_test.proto", package="caffe", syntax="proto2")
    kinds = {name: getattr(descriptor_pb2.FieldDescriptorProto, "TYPE_" + name.upper())
             for name in ("int64", "float", "bool", "string")}
    for message, fields in FIELDS.items():
        described = file.message_type.add(name=message)
        for field, (number, kind, repeated) in fields.items():
            added = described.field.add(name=field, number=number, label=3 if repeated else 1)
            if kind in kinds:
                added.type = kinds[kind]
                if repeated:
                    added.options.packed = True
            else:
                added.type = descriptor_pb2.FieldDescriptorProto.TYPE_MESSAGE
                added.type_name = ".caffe." + kind
    pool = descriptor_pool.DescriptorPool()
    descriptor = pool.Add(file) or pool.FindFileByName(file.name)
    net = descriptor.message_types_by_name["NetParameter"]
    if not hasattr(message_factory, "GetMessageClass"):  # before 4.22; Debian 12 has 3.21
        return message_factory.MessageFactory(pool).GetPrototype(net)
    return message_factory.GetMessageClass(net)


def has_protobuf():
    return importlib.util.find_spec("google") is not None and importlib.util.find_spec("google.protobuf") is not None


def tensors_of(model_file):
    """Name to (shape, floats): common/params/model_file.h."""
    content = model_file.read_bytes()
    header_bytes = struct.unpack_from("<I", content, 8)[0]
    header = json.loads(content[16:16 + header_bytes])
    begin = (16 + header_bytes + 63) // 64 * 64
    if len(content) - begin != 4 * header["floats"]:
        begin = len(content) - 4 * header["floats"]
    tensors = {}
    for tensor in header["tensors"]:
        size = 1
        for dim in tensor["shape"]:
            size *= dim
        tensors[tensor["name"]] = (tensor["shape"], struct.unpack_from(f"<{size}f", content, begin + 4 * tensor["offset"]))
    return tensors


class CaffeNets(DaemonTest):
    def configure(self, shards=1, text=""):
        super().configure(shards, text)
        (self.folder / "net.prototxt").write_text(NET, encoding="utf-8")
        (self.folder / "solver.prototxt").write_text(SOLVER, encoding="utf-8")
        self.config.write_text(f"""\
run: {{out: {self.run_dir}}}
cluster: {{nodes: 2, endpoints: ["{self.endpoints[0]}"], lease: 60s, start_timeout: {harness.START_TIMEOUT}}}
train: {{caffe_solver: {self.folder}/solver.prototxt}}
data: {{kind: synthetic, path: {self.data}}}
""", encoding="utf-8")

    @unittest.skipUnless(has_protobuf(), "this Python has no protobuf")
    def test_what_a_net_has_learned_is_read_by_protobuf_itself(self):
        servers, nodes = self.start_run()
        summary = self.assert_all_done(servers, nodes)
        self.assertEqual(summary["iterations"], 40)  # max_iter for each of two workers
        exported = self.folder / "out.caffemodel"
        done = self.paceline("export", self.run_dir, "--format", "caffemodel", "--out", exported)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        content = exported.read_bytes()
        net = net_parameter()()
        net.ParseFromString(content)
        self.assertEqual(net.SerializeToString(deterministic=True), content, "bytes that protobuf would write")
        layers = {layer.name: layer for layer in net.layer}
        self.assertEqual({name: (layer.type, len(layer.blobs)) for name, layer in layers.items()},
                         {"conv": ("Convolution", 1), "norm": ("BatchNorm", 3), "scale": ("Scale", 2),
                          "side": ("InnerProduct", 2), "out": ("InnerProduct", 2)})
        self.assertTrue(layers["scale"].scale_param.bias_term)
        self.assertAlmostEqual(layers["norm"].batch_norm_param.moving_average_fraction, 0.9, 6)
        parts = {"norm": ("running_mean", "running_var", "running_weight")}
        tensors = tensors_of(self.run_dir / "model.bin")
        for name, layer in layers.items():
            for blob, part in zip(layer.blobs, parts.get(name, ("weight", "bias"))):
                shape, floats = tensors.pop(f"{name}.{part}")
                self.assertEqual(list(blob.shape.dim), shape)
                if name in parts:  # Caffe's are sums
                    for ours, theirs in zip(floats, blob.data):
                        self.assertAlmostEqual(ours / 0.1, theirs, delta=1e-4 + 1e-5 * abs(theirs))
                else:
                    self.assertEqual(tuple(blob.data), floats)
        self.assertEqual(tensors, {})
        # Read here it is as good on the test set.
        judged = [self.paceline("evaluate", what, "--config", self.run_dir / "config.yaml")
                  for what in (self.run_dir, exported)]
        self.assertEqual([(one.returncode, one.stderr) for one in judged], [(0, "")] * 2)
        of_run, of_file = (one.stdout.split(": test loss ")[1] for one in judged)
        self.assertEqual(of_file, of_run)
        # 20 updates with 0.9: (1 - 0.9^20) / 0.1
        self.assertAlmostEqual(layers["norm"].blobs[2].data[0], (1 - 0.9 ** 20) / 0.1, 4)


if __name__ == "__main__":
    harness.main()
