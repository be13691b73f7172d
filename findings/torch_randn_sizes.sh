#!/usr/bin/env bash
# PyTorch: the first numbers of randn depend on how many are asked for, so a row's noise depends on the mini-batch's size; rand and dropout do not.
set -eu
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
python3 -m venv "$tmp/venv"
"$tmp/venv/bin/pip" install -q torch==2.13.0 numpy==2.4.6
cat >"$tmp/check.py" <<'PY'
import sys

import numpy as np
import torch

ROWS, FEATURES = 8, 10
KINDS = {
    "rand": lambda rows: torch.rand(rows, FEATURES),
    "dropout": lambda rows: torch.nn.functional.dropout(torch.ones(rows, FEATURES)),
    "randint": lambda rows: torch.randint(0, 1 << 20, (rows, FEATURES)),
    "exponential_": lambda rows: torch.empty(rows, FEATURES).exponential_(),
    "NumPy's standard_normal": lambda rows: torch.from_numpy(np.random.default_rng(7).standard_normal((rows, FEATURES))),
    "randn": lambda rows: torch.randn(rows, FEATURES),
    "randn in float64": lambda rows: torch.randn(rows, FEATURES, dtype=torch.float64),
    "normal_": lambda rows: torch.empty(rows, FEATURES).normal_(),
}


def drawn(kind, rows):
    torch.manual_seed(7)
    return KINDS[kind](rows)


def equal_rows(kind):
    """For a mini-batch of 1, 2, .. rows: how many of its rows are as in the mini-batch of ROWS."""
    whole = drawn(kind, ROWS)
    return [sum(bool((a == b).all()) for a, b in zip(drawn(kind, rows), whole)) for rows in range(1, ROWS)]


print("torch", torch.__version__)
print("guess: numbers come from one stream, so the first rows are the same whatever the number of rows behind them")
seen = {kind: equal_rows(kind) for kind in KINDS}
for kind, counts in seen.items():
    print(f"{kind}: of 1 to {ROWS - 1} rows of {FEATURES} numbers {counts} are as in {ROWS} rows")
torch.manual_seed(7)
halves = torch.cat([torch.randn(4, FEATURES), torch.randn(4, FEATURES)])
in_halves = sum(bool((a == b).all()) for a, b in zip(halves, drawn("randn", ROWS)))
print(f"randn in two halves: {in_halves} of {ROWS} rows are as in one call")
everything = list(range(1, ROWS))
as_found = all(counts == everything for kind, counts in seen.items() if not kind.startswith(("randn", "normal")))
# The last sixteen numbers are drawn once more unless sixteen divides the size; below sixteen there is another formula.
expected = [0 if rows * FEATURES < 16 else rows if rows * FEATURES % 16 == 0 else (rows * FEATURES - 16) // FEATURES
            for rows in everything]
as_found &= all(counts == expected for kind, counts in seen.items() if kind.startswith(("randn", "normal")))
as_found &= in_halves < 4
print("as found: the last sixteen numbers are drawn anew, and fewer than sixteen by another formula" if as_found else "CHANGED")
sys.exit(0 if as_found else 1)
PY
cd "$tmp" && "$tmp/venv/bin/python" check.py
