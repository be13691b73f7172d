#!/usr/bin/env bash
# OpenVINO: a Resize with antialias in an ONNX model is read without it, so pictures are made smaller with aliasing.
set -eu
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
python3 -m venv "$tmp/venv"
"$tmp/venv/bin/pip" install -q openvino==2026.4.1 onnx==1.23.2 onnxruntime==1.32.0 pillow==13.0.0 numpy==2.4.6
cat >"$tmp/check.py" <<'PY'
import sys

import numpy as np
import onnx
import onnxruntime
import openvino
import PIL
from onnx import TensorProto, helper, numpy_helper
from PIL import Image

SIDE, SMALL = 32, 8
stripes = np.tile(np.array([0, 0, 1, 0], np.float32), (SIDE, SIDE // 4))  # every fourth column is white: a quarter of the light


def model(mode, antialias):
    graph = helper.make_graph(
        [helper.make_node("Resize", ["x", "", "", "sizes"], ["y"], mode=mode, antialias=antialias, cubic_coeff_a=-0.5)], "smaller",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 1, SIDE, SIDE])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 1, SMALL, SMALL])], [numpy_helper.from_array(np.array([1, 1, SMALL, SMALL]), "sizes")])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    onnx.checker.check_model(made, full_check=True)
    return made


print("openvino", openvino.__version__, "onnxruntime", onnxruntime.__version__, "pillow", PIL.__version__)
print("guess: antialias=1 is computed, as onnxruntime and Pillow compute it, or refused")
core = openvino.Core()
inner = slice(2, -2), slice(2, -2)  # at the edge Pillow weighs otherwise than ONNX's default
seen, of_openvino = {}, {}
for mode, filter_ in (("linear", Image.Resampling.BILINEAR), ("cubic", Image.Resampling.BICUBIC)):
    pillow = np.asarray(Image.fromarray(stripes).resize((SMALL, SMALL), filter_))
    for antialias in (0, 1):
        made = model(mode, antialias)
        right = onnxruntime.InferenceSession(made.SerializeToString()).run(None, {"x": stripes[None, None]})[0][0, 0]
        onnx.save(made, "smaller.onnx")
        found = core.compile_model(core.read_model("smaller.onnx"), "CPU", {"INFERENCE_PRECISION_HINT": "f32"})(stripes[None, None])[0][0, 0]
        of_openvino[mode, antialias] = found
        seen[mode, antialias] = [bool(np.allclose(first, second, atol=1e-3)) for first, second in ((right[inner], pillow[inner]), (found, right))]
        print(f"{mode}, antialias={antialias}, mean brightness: Pillow {pillow.mean():.3f}, onnxruntime {right.mean():.3f}, OpenVINO {found.mean():.3f}")
as_found = all(seen[mode, 0] == [False, True] and seen[mode, 1] == [True, False] for mode in ("linear", "cubic"))
as_found &= all(np.allclose(of_openvino[mode, 1], of_openvino[mode, 0], atol=1e-3) for mode in ("linear", "cubic"))
as_found &= bool(np.allclose(of_openvino["linear", 1], 0.5, atol=1e-3))  # twice the light of a quarter
print("as found: OpenVINO's pictures are those without antialias" if as_found else f"CHANGED: {seen}")
sys.exit(0 if as_found else 1)
PY
cd "$tmp" && "$tmp/venv/bin/python" check.py
