#!/usr/bin/env bash
# PyTorch's ONNX exporter: a mean of scattered rows is exported as the last row; label smoothing and a pooling's divisor are left out.
set -eu
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
python3 -m venv "$tmp/venv"
"$tmp/venv/bin/pip" install -q torch==2.13.0 onnx==1.23.2 onnxscript==0.7.2 onnxruntime==1.32.0 numpy==2.4.6
cat >"$tmp/check.py" <<'PY'
import contextlib
import io
import logging
import sys
import warnings

import numpy as np
import onnxruntime
import torch
from torch import nn
from torch.nn import functional

warnings.filterwarnings("ignore")
logging.disable(logging.CRITICAL)
onnxruntime.set_default_logger_severity(3)


class Calls(nn.Module):
    """A model of one call."""

    def __init__(self, call):
        super().__init__()
        self.call = call

    def forward(self, *inputs):
        return self.call(*inputs)


def scattered(how):
    return Calls(lambda rows, owners: torch.zeros(3).scatter_reduce(0, owners, rows, how, include_self=False))


def resized(**how):
    return Calls(lambda pictures: functional.interpolate(pictures, size=(2, 2), mode="bilinear", **how))


messages = torch.tensor([1.0, 3.0, 5.0, 7.0]), torch.tensor([1, 1, 2, 1])  # three for node 1, one for node 2
picture = (torch.arange(16.0).remainder(5).reshape(1, 1, 4, 4),)
answers = torch.tensor([[1.0, 2.0, 3.0], [0.0, 1.0, -1.0]]), torch.tensor([0, 2])
CASES = {
    "scatter_reduce sum": (scattered("sum"), messages),
    "scatter_reduce amax": (scattered("amax"), messages),
    "scatter_reduce mean": (scattered("mean"), messages),
    "AvgPool2d(2)": (nn.AvgPool2d(2), picture),
    "AvgPool2d(2, divisor_override=1)": (nn.AvgPool2d(2, divisor_override=1), picture),
    "CrossEntropyLoss()": (nn.CrossEntropyLoss(), answers),
    "CrossEntropyLoss(label_smoothing=0.3)": (nn.CrossEntropyLoss(label_smoothing=0.3), answers),
    "interpolate antialias": (resized(antialias=True), picture),
    "interpolate align_corners": (resized(align_corners=True), picture),
}
WITHOUT = {
    "scatter_reduce mean": lambda rows, owners: torch.zeros(3).index_put((owners[[2, 3]],), rows[[2, 3]]),  # each node's last message
    "AvgPool2d(2, divisor_override=1)": nn.AvgPool2d(2),
    "CrossEntropyLoss(label_smoothing=0.3)": nn.CrossEntropyLoss(),
}
print("torch", torch.__version__, "onnxruntime", onnxruntime.__version__)
print("guess: the exporter writes what the model computes, or refuses it")
other = {}  # whether the result is that of WITHOUT
for name, (model, inputs) in CASES.items():
    right = model.eval()(*inputs).numpy()
    with contextlib.redirect_stdout(io.StringIO()):
        program = torch.onnx.export(model, inputs, dynamo=True, verbose=False, verify=False)
    session = onnxruntime.InferenceSession(program.model_proto.SerializeToString())
    found = session.run(None, {entry.name: value.numpy() for entry, value in zip(session.get_inputs(), inputs)})[0]
    if not np.allclose(right, found, atol=1e-5):
        other[name] = name in WITHOUT and np.allclose(WITHOUT[name](*inputs).numpy(), found, atol=1e-5)
    print(f"{name}: {np.round(right.astype(float), 3).ravel().tolist()} in PyTorch, {np.round(found.astype(float), 3).ravel().tolist()} exported")
as_found = other == dict.fromkeys(WITHOUT, True)
print("as found: a mean of three messages is the last of them, the sum pooling is an average, and the loss is not smoothed" if as_found else f"CHANGED: {other}")
sys.exit(0 if as_found else 1)
PY
cd "$tmp" && "$tmp/venv/bin/python" check.py
