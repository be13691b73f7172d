#!/usr/bin/env bash
# ExecuTorch: delegated to XNNPACK a picture is enlarged from other places and a maximum drops NaN; `%` of whole numbers goes towards zero.
set -eu
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
python3 -m venv "$tmp/venv"
"$tmp/venv/bin/pip" install -q executorch==1.5.1 torch==2.13.0 numpy==2.4.6
cat >"$tmp/check.py" <<'PY'
import logging
import sys
import warnings
from importlib.metadata import version

logging.disable(logging.CRITICAL)
warnings.simplefilter("ignore")

import torch
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.exir import to_edge_transform_and_lower
from executorch.runtime import Runtime
from torch.nn import functional

torch.set_num_threads(1)
NAN = float("nan")


class Called(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *inputs):
        return self.function(*inputs)


def executed(function, inputs, partitioners):
    program = to_edge_transform_and_lower(torch.export.export(Called(function).eval(), inputs), partitioner=partitioners).to_executorch()
    return Runtime.get().load_program(bytes(program.buffer)).load_method("forward").execute(list(inputs))[0]


def enlarged(**size):
    return lambda picture: functional.interpolate(picture, mode="bilinear", **size)


picture = torch.zeros(1, 1, 7, 7)
picture[..., ::2] = 1.0  # stripes
whole = torch.tensor([-7, -5, -1, 7])
CASES = {  # the function, its inputs, and whether the portable kernels and XNNPACK are right
    "interpolate(size=11)": (enlarged(size=11), (picture,), (True, True)),
    "interpolate(scale_factor=1.7)": (enlarged(scale_factor=1.7), (picture,), (True, False)),
    "maximum with 0": (lambda x: torch.maximum(x, torch.zeros_like(x)), (torch.tensor([1.0, NAN, -1.0]),), (True, False)),
    "minimum with 0": (lambda x: torch.minimum(x, torch.zeros_like(x)), (torch.tensor([1.0, NAN, -1.0]),), (True, False)),
    "% 3 of floats": (lambda x: x % 3, (whole.float(),), (True, True)),
    "% 3 of int64": (lambda x: x % 3, (whole,), (False, False)),
    "% 3 of int32": (lambda x: x % 3, (whole.int(),), (False, False)),
    "// 3 of int64": (lambda x: x // 3, (whole,), (True, True)),
}
print("executorch", version("executorch"), "torch", torch.__version__)
print("guess: a model gives PyTorch's outputs up to rounding, by the portable kernels and by XNNPACK, or it is not converted")
as_found = True
for name, (function, inputs, expected) in CASES.items():
    exact = function(*inputs)
    for way, partitioners, right in (("portable", [], expected[0]), ("XNNPACK", [XnnpackPartitioner()], expected[1])):
        values = executed(function, inputs, partitioners)
        same = values.dtype == exact.dtype and torch.allclose(values, exact, rtol=1e-3, atol=1e-5, equal_nan=True)
        shown = "" if same else f": {values.flatten()[:5].tolist()} instead of {exact.flatten()[:5].tolist()}"
        print(f"{name}, {way}: {'right' if same else 'WRONG'}{shown}")
        as_found &= same == right
print("as found: a given scale is computed anew from the sizes, NaN is dropped, and remainders are negative" if as_found else "CHANGED")
sys.exit(0 if as_found else 1)
PY
cd "$tmp" && "$tmp/venv/bin/python" check.py 2>log || { tail -20 log; exit 1; }
