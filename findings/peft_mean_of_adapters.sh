#!/usr/bin/env bash
# peft: the weighted sum of LoRA adapters by "linear" is none; halves of two equal adapters make twice that adapter.
set -eu
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
python3 -m venv "$tmp/venv"
"$tmp/venv/bin/pip" install -q peft==0.21.2 transformers==5.24.0 torch==2.13.0 numpy==2.4.6
cat >"$tmp/check.py" <<'PY'
import sys

import peft
import torch
from peft import LoraConfig, get_peft_model
from torch import nn

WIDTH, RANK = 8, 2


def adapted():
    """A layer with two adapters as two nodes might have trained them, and what adds an adapter's matrix to the weight."""
    torch.manual_seed(0)
    config = LoraConfig(r=RANK, lora_alpha=RANK, target_modules=["0"], init_lora_weights=False)  # not zero at the start
    model = get_peft_model(nn.Sequential(nn.Linear(WIDTH, WIDTH)), config, adapter_name="one")
    model.add_adapter("two", config)
    return model, lambda name: model.base_model.model[0].get_delta_weight(name).detach()


model, matrix = adapted()
ONE, TWO = matrix("one"), matrix("two")
WANTED = {"the mean of two equal ones": (["one", "one"], [0.5, 0.5], ONE), "the mean of two": (["one", "two"], [0.5, 0.5], (ONE + TWO) / 2),
          "their difference": (["one", "two"], [1.0, -1.0], ONE - TWO)}
print("peft", peft.__version__, "torch", torch.__version__)
print("guess: add_weighted_adapter() adds weight times adapter, up to rounding where the rank suffices")
off, along = {}, {}
for what, (names, weights, right) in WANTED.items():
    for way, options in (("linear", {}), ("cat", {}), ("svd", {"svd_rank": 2 * RANK})):
        made = f"{len(off)}"
        model.add_weighted_adapter(names, weights, made, combination_type=way, **options)
        off[what, way] = ((matrix(made) - right).norm() / right.norm()).item()
        along[what, way] = ((matrix(made) * right).sum() / right.square().sum()).item()
        print(f"{what}, {way}: off by {off[what, way]:.1%}; {along[what, way]:.2f} times as long in the right direction")
# The difference by cat and svd is left to the printout: how a negative weight is taken is another matter.
as_found = all(off[what, "linear"] > 0.5 for what in WANTED)
as_found &= all(abs(each["the mean of two equal ones", "linear"] - right) < 1e-5 for each, right in ((off, 1), (along, 2)))
as_found &= abs(off["the mean of two", "linear"] - 1) < 0.1
as_found &= all(off[what, way] < 1e-4 for what in list(WANTED)[:2] for way in ("cat", "svd"))
print("as found: factors are added, and their product is multiplied out" if as_found else "CHANGED")
sys.exit(0 if as_found else 1)
PY
cd "$tmp" && "$tmp/venv/bin/python" check.py 2>log || { tail -20 log; exit 1; }
