#!/usr/bin/env bash
# ONNX: the version converter brings a model to a newer opset and changes what Resize, Upsample and Hardmax compute.
set -eu
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
python3 -m venv "$tmp/venv"
"$tmp/venv/bin/pip" install -q onnx==1.23.2 onnxruntime==1.32.0 numpy==2.4.6
cat >"$tmp/check.py" <<'PY'
import sys

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper, version_converter

onnxruntime.set_default_logger_severity(3)
ramp = np.arange(4, dtype=np.float32).reshape(1, 1, 1, 4)  # 0 1 2 3
scores = np.array([[[1, 5], [2, 9]], [[7, 3], [4, 6]]], np.float32)  # two samples of 2 x 2


def model(operator, opset, inputs, sizes=None, **attributes):
    outputs = [int(side * factor) for side, factor in zip(inputs.shape, sizes or [1, 1, 1])]
    constants = [] if sizes is None else [numpy_helper.from_array(np.array(sizes, np.float32), "sizes")]
    graph = helper.make_graph(
        [helper.make_node(operator, ["x", *(["sizes"] if sizes else [])], ["y"], **attributes)], operator,
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, inputs.shape)], [helper.make_tensor_value_info("y", TensorProto.FLOAT, outputs)], constants)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    onnx.checker.check_model(made, full_check=True)
    return made


def run(made, inputs):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(made.SerializeToString(), options).run(None, {"x": inputs})[0]


CASES = {
    "Resize linear, 10 to 13": (model("Resize", 10, ramp, [1, 1, 1, 2], mode="linear"), 13, ramp),
    "Resize linear to a half, 10 to 13": (model("Resize", 10, ramp, [1, 1, 1, 0.5], mode="linear"), 13, ramp),
    "Resize nearest, factor 1.75, 10 to 13": (model("Resize", 10, ramp, [1, 1, 1, 1.75], mode="nearest"), 13, ramp),
    "Resize nearest, factor 2, 10 to 13": (model("Resize", 10, ramp, [1, 1, 1, 2], mode="nearest"), 13, ramp),
    "Upsample linear, 9 to 10": (model("Upsample", 9, ramp, [1, 1, 1, 2], mode="linear"), 10, ramp),
    "Upsample linear, 9 to 13": (model("Upsample", 9, ramp, [1, 1, 1, 2], mode="linear"), 13, ramp),
    "Hardmax, 11 to 13": (model("Hardmax", 11, scores), 13, scores),
    "Softmax, 11 to 13": (model("Softmax", 11, scores), 13, scores),
    "LogSoftmax, 11 to 13": (model("LogSoftmax", 11, scores), 13, scores),
}
def sampled(scale, nearest, half):
    """The ramp, made longer or shorter by a default rule of linear or nearest: that of opset 10, or by half pixels."""
    at = np.arange(int(4 * scale))
    at = (at + 0.5) / scale - 0.5 if half else at / scale
    if nearest:
        at = np.ceil(at - 0.5) if half else np.floor(at)
    return np.clip(at, 0, 3)


def chosen(rows):
    """One where the largest of each row is."""
    return np.eye(rows.shape[-1])[rows.argmax(-1)]


RULES = {  # what is computed before, and behind
    "Resize linear, 10 to 13": [sampled(2, False, half) for half in (False, True)],
    "Resize linear to a half, 10 to 13": [sampled(0.5, False, half) for half in (False, True)],
    "Resize nearest, factor 1.75, 10 to 13": [sampled(1.75, True, half) for half in (False, True)],
    "Upsample linear, 9 to 13": [sampled(2, False, half) for half in (False, True)],
    "Hardmax, 11 to 13": [chosen(scores.reshape(2, 4)), chosen(scores)],
}
print("onnx", onnx.__version__, "onnxruntime", onnxruntime.__version__)
print("guess: a converted model computes what the model computed, as for Softmax, whose meaning changed as well")
other = {}  # whether it is by the rules
for name, (made, opset, inputs) in CASES.items():
    before = run(made, inputs)
    converted = version_converter.convert_version(made, opset)
    onnx.checker.check_model(converted, full_check=True)
    behind = run(converted, inputs)
    if not np.allclose(before, behind, atol=1e-6):
        other[name] = name in RULES and all(np.allclose(rule.ravel(), seen.ravel(), atol=1e-6) for rule, seen in zip(RULES[name], (before, behind)))
    print(f"{name}: {np.round(before.astype(float), 2).ravel().tolist()} before, {np.round(behind.astype(float), 2).ravel().tolist()} behind")
as_found = other == dict.fromkeys(RULES, True)
print("as found: pictures are sampled at other places, and Hardmax chooses per row instead of per sample" if as_found else f"CHANGED: {other}")
sys.exit(0 if as_found else 1)
PY
cd "$tmp" && "$tmp/venv/bin/python" check.py
