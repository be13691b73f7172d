#!/usr/bin/env bash
# optax: microbatch() with num_real_microbatches does not take the first rows but every so-many-th, and MEAN divides by all, so a padded batch drops samples and counts padding.
set -eu
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
python3 -m venv "$tmp/venv"
"$tmp/venv/bin/pip" install -q optax==0.2.8 jax==0.10.2 jaxlib==0.10.2 numpy==2.4.6
cat >"$tmp/check.py" <<'PY'
import sys

import jax
import jax.numpy as jnp
import optax
from optax.microbatching import AccumulationType

SIZE, ROWS = 2, 8  # rows of a micro-batch, and of the padded batch
PADDING = -1000.0


def padded(count):
    """The samples 1, 2, .. count, with padding behind them: one compiled function then takes batches of any size."""
    return jnp.array([float(row + 1) if row < count else PADDING for row in range(ROWS)])


def by(accumulator, function, batch, real):
    return optax.microbatch(function, 0, SIZE, accumulator, num_real_microbatches=real)(batch)


def total(rows):
    return rows.sum()


def mean(rows):
    return rows.mean()


def same(rows):
    return rows


print("optax", optax.__version__, "jax", jax.__version__)
print(f"guess: of a batch padded to {ROWS} rows, the first num_real_microbatches x {SIZE} rows are read, and a mean is theirs")
as_found = True
for count in (8, 4, 2):
    batch, real = padded(count), count // SIZE
    seen = (float(by(AccumulationType.SUM, total, batch, real)), float(by(AccumulationType.MEAN, mean, batch, real)),
            float(by(AccumulationType.RUNNING_MEAN, mean, batch, real)))
    wanted = (sum(range(1, count + 1)), (count + 1) / 2)
    print(f"{count} samples in {real} micro-batches: SUM {seen[0]:g} (wanted {wanted[0]:g}), MEAN {seen[1]:g} and RUNNING_MEAN "
          f"{seen[2]:g} (wanted {wanted[1]:g})")
    if count == ROWS:
        as_found &= seen == (wanted[0], wanted[1], wanted[1])
    else:
        as_found &= seen[0] < 0 and seen[1] < 0 and seen[2] < 0
full = padded(ROWS)
read = by(AccumulationType.CONCAT, same, full, 1).tolist()
means = [float(by(kind, mean, full, 1)) for kind in (AccumulationType.MEAN, AccumulationType.RUNNING_MEAN)]
print(f"rows 1 to {ROWS}, one real micro-batch: CONCAT {read}; MEAN {means[0]:g}, RUNNING_MEAN {means[1]:g}")
as_found &= read == [1, 0, 0, 0, 5, 0, 0, 0] and means == [3 / 4, 3]
print("as found: rows 1 and 5 instead of 1 and 2, and MEAN a quarter of their mean" if as_found else "CHANGED")
sys.exit(0 if as_found else 1)
PY
cd "$tmp" && "$tmp/venv/bin/python" check.py
