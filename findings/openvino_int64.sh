#!/usr/bin/env bash
# OpenVINO: int64 is computed in 32 bits and handed out as int64, of ONNX's models.
set -eu
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
python3 -m venv "$tmp/venv"
"$tmp/venv/bin/pip" install -q openvino==2026.4.1 onnx==1.23.2 onnxruntime==1.32.0 numpy==2.4.6
cat >"$tmp/check.py" <<'PY'
import sys

import numpy as np
import onnx
import onnxruntime
import openvino
from onnx import TensorProto, helper

INT64 = TensorProto.INT64
print("openvino", openvino.__version__, "onnxruntime", onnxruntime.__version__)
print("guess: a model whose inputs and outputs are int64 is computed in int64, as by onnxruntime, or refused")
samples = np.array([7, 2**24 + 1, 2**31 + 5, 2**40 + 1], np.int64)


def bucket_of_hash(count=1000003):
    return [helper.make_node("Mod", ["x", "count"], ["y"])], {"count": count}, INT64


def next_sample():
    return [helper.make_node("Add", ["x", "one"], ["y"])], {"one": 1}, INT64


def is_late():
    return [helper.make_node("Greater", ["x", "bound"], ["y"])], {"bound": 2**33}, TensorProto.BOOL


def seen_in_all():
    return [helper.make_node("ReduceSum", ["x"], ["y"], keepdims=0)], {}, INT64


def place_in_float():
    return [helper.make_node("Cast", ["x"], ["y"], to=TensorProto.FLOAT)], {}, TensorProto.FLOAT


def as_it_is():
    return [helper.make_node("Identity", ["x"], ["y"])], {}, INT64


core = openvino.Core()
same, results = {}, {}
for build in (bucket_of_hash, next_sample, is_late, seen_in_all, place_in_float, as_it_is):
    nodes, constants, kind = build()
    graph = helper.make_graph(nodes, build.__name__, [helper.make_tensor_value_info("x", INT64, [4])],
                              [helper.make_tensor_value_info("y", kind, [] if build is seen_in_all else [4])],
                              [helper.make_tensor(name, INT64, [], [value]) for name, value in constants.items()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    onnx.checker.check_model(model, full_check=True)
    right = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": samples})[0]
    onnx.save(model, "model.onnx")
    found = core.compile_model(core.read_model("model.onnx"), "CPU")(samples)[0]
    results[build.__name__] = right, found
    same[build.__name__] = right.dtype == found.dtype and bool((right == found).all())
    print(f"{build.__name__}: {right.dtype} {right.tolist()} by onnxruntime, {found.dtype} {found.tolist()} by OpenVINO")
as_found = {name for name, equal in same.items() if not equal} == {"bucket_of_hash", "next_sample", "is_late", "seen_in_all", "as_it_is"}
right, found = results["bucket_of_hash"]
as_found &= abs(found[1] - right[1]) == 1 and bool((results["as_it_is"][1] == samples.astype(np.int32)).all())
print("as found: int64 is cut to its lower half, and only a cast to float sees the whole" if as_found else f"CHANGED: {same}")
sys.exit(0 if as_found else 1)
PY
cd "$tmp" && "$tmp/venv/bin/python" check.py
