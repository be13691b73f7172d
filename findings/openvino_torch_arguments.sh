#!/usr/bin/env bash
# OpenVINO: the converter of PyTorch's models leaves out arguments of known operations, and the model computes something else.
set -eu
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
python3 -m venv "$tmp/venv"
"$tmp/venv/bin/pip" install -q openvino==2026.4.1 torch==2.13.0 numpy==2.4.6
cat >"$tmp/check.py" <<'PY'
import logging
import sys
import warnings

import numpy as np
import openvino
import torch
from torch import nn

warnings.filterwarnings("ignore")
logging.disable(logging.CRITICAL)


class Calls(nn.Module):
    """A model of one call."""

    def __init__(self, call):
        super().__init__()
        self.call = call

    def forward(self, x):
        return self.call(x)


numbers = torch.tensor([0.26, -1.37, 2.5, 0.04])
whole = torch.tensor([-7, -6, 7, 6, -1])
CASES = {
    "Softplus()": (nn.Softplus(), numbers),
    "Softplus(beta=5)": (nn.Softplus(beta=5), numbers),
    "Softplus(threshold=1)": (nn.Softplus(threshold=1), numbers),
    "ELU(alpha=0.5)": (nn.ELU(0.5), numbers),
    "round()": (Calls(lambda x: x.round()), numbers),
    "round(decimals=1)": (Calls(lambda x: x.round(decimals=1)), numbers),
    "var(correction=1)": (Calls(lambda x: x.var(0, correction=1)), numbers),
    "var(correction=2)": (Calls(lambda x: x.var(0, correction=2)), numbers),
    "x // 0.7": (Calls(lambda x: x // 0.7), numbers),
    "whole // 4": (Calls(lambda x: x // 4), whole),
    "div(whole, 4, rounding_mode='floor')": (Calls(lambda x: torch.div(x, 4, rounding_mode="floor")), whole),
    "whole % 4": (Calls(lambda x: x % 4), whole),
}
WITHOUT = {
    "Softplus(beta=5)": nn.Softplus(),
    "Softplus(threshold=1)": nn.Softplus(),
    "round(decimals=1)": torch.round,
    "var(correction=2)": lambda x: x.var(0, correction=1),
    "whole // 4": lambda x: torch.div(x, 4, rounding_mode="trunc"),
    "div(whole, 4, rounding_mode='floor')": lambda x: torch.div(x, 4, rounding_mode="trunc"),
}
print("openvino", openvino.__version__, "torch", torch.__version__)
print("guess: what the converter takes it converts whole, and it refuses the rest, as it refuses Softshrink")
core = openvino.Core()
other = {}  # whether the result is that of WITHOUT
for name, (model, inputs) in CASES.items():
    right = model.eval()(inputs).numpy()
    compiled = core.compile_model(openvino.convert_model(model, example_input=inputs), "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    found = compiled(inputs.numpy())[0]
    if not np.allclose(right, found, atol=1e-5):
        other[name] = name in WITHOUT and np.allclose(WITHOUT[name](inputs).numpy(), found, atol=1e-5)
    print(f"{name}: {np.round(right.astype(float), 3).tolist()} in PyTorch, {np.round(found.astype(float), 3).tolist()} converted")
try:
    openvino.convert_model(nn.Softshrink(), example_input=numbers)
    refused = False
except Exception as error:
    refused = "aten::softshrink" in str(error)
as_found = refused and other == dict.fromkeys(WITHOUT, True)
print("as found: six calls are converted into others" if as_found else f"CHANGED: {other}, Softshrink refused: {refused}")
sys.exit(0 if as_found else 1)
PY
cd "$tmp" && "$tmp/venv/bin/python" check.py
