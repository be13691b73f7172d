#!/usr/bin/env bash
# PyTorch: one seed draws other weights on a processor without AVX2, so nodes that build the model from the same seed do not start with one model.
set -eu
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
python3 -m venv "$tmp/venv"
"$tmp/venv/bin/pip" install -q torch==2.13.0 numpy==2.4.6
cat >"$tmp/check.py" <<'PY'
import os
import subprocess
import sys

import torch
from torch import nn

DRAWS = {
    "randn": lambda: torch.randn(1000),
    "trunc_normal_": lambda: nn.init.trunc_normal_(torch.empty(1000)),
    "orthogonal_": lambda: nn.init.orthogonal_(torch.empty(32, 32)),
    "the weight of Linear": lambda: nn.Linear(32, 32).weight.detach(),
    "rand": lambda: torch.rand(1000),
    "dropout": lambda: nn.functional.dropout(torch.ones(1000)),
    "randperm": lambda: torch.randperm(1000),
    "exponential_": lambda: torch.empty(1000).exponential_(),
}


def draw(path):
    torch.set_num_threads(1)
    drawn = {}
    for name, function in DRAWS.items():
        torch.manual_seed(7)
        drawn[name] = function()
    torch.save({"kind": torch.backends.cpu.get_cpu_capability(), "drawn": drawn}, path)


def other_process(capability):
    """The same on this machine, with the kernels that PyTorch takes on a processor of that kind."""
    subprocess.run([sys.executable, __file__, capability], check=True, env=os.environ | {"ATEN_CPU_CAPABILITY": capability})
    return torch.load(capability)


if len(sys.argv) > 1:
    draw(sys.argv[1])
    sys.exit(0)
print("torch", torch.__version__)
print("guess: a seed gives the same numbers on every processor of one kind of machine, as only sums may be rounded otherwise")
plain, vectors = other_process("default"), other_process("avx2")
print("kernels:", plain["kind"], "and", vectors["kind"])
differ = {}
for name, values in plain["drawn"].items():
    distance = (values.double() - vectors["drawn"][name].double()).abs()
    differ[name] = int((distance > 0).sum())
    print(f"{name}: {differ[name]} of {values.numel()} numbers differ, by {float(distance.max()):.1e} at most")
same = ("rand", "dropout", "randperm", "exponential_")
as_found = (plain["kind"], vectors["kind"]) == ("DEFAULT", "AVX2")
as_found &= all((differ[name] == 0) == (name in same) for name in DRAWS)
as_found &= all(differ[name] > 200 for name in DRAWS if name not in same)
print("as found: weights differ in their last digits, masks and permutations do not" if as_found else "CHANGED")
sys.exit(0 if as_found else 1)
PY
cd "$tmp" && "$tmp/venv/bin/python" check.py
