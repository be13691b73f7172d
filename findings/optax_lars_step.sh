#!/usr/bin/env bash
# optax: lars() adds the decay before it measures the gradient, so its steps never become shorter near the minimum.
set -eu
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
python3 -m venv "$tmp/venv"
"$tmp/venv/bin/pip" install -q optax==0.2.8 jax==0.10.2 jaxlib==0.10.2 numpy==2.4.6
cat >"$tmp/check.py" <<'PY'
import sys

import jax
import numpy as np
import optax

DECAY, TRUST, RATE = 0.5, 0.001, 1.0
centre = np.array([3.0, -4.0], np.float32)
minimum = centre / (1 + DECAY)  # of |w - centre|^2 / 2 + DECAY |w|^2 / 2
lars = optax.lars(RATE, weight_decay=DECAY, trust_coefficient=TRUST, momentum=0.0)
print("optax", optax.__version__, "jax", jax.__version__)
print("guess, by You et al. 2017: |step| = rate * trust * |w| / (|g| + decay |w|) * |g + decay w|")
lengths, formula = [], []
for off in (1.0, 0.1, 0.01, 0.001):
    w = minimum + np.array([off, 0.0], np.float32)
    g = w - centre
    step, _ = lars.update({"w": jax.numpy.asarray(g)}, lars.init({"w": w}), {"w": jax.numpy.asarray(w)})
    norm = np.linalg.norm
    lengths.append(float(norm(np.asarray(step["w"]))))
    formula.append(float(RATE * TRUST * norm(w) / (norm(g) + DECAY * norm(w)) * norm(g + DECAY * w)))
    print(f"{off:g} from the minimum: step {lengths[-1]:.7f}, by the formula {formula[-1]:.7f},"
          f" rate * trust * |w| {RATE * TRUST * norm(w):.7f}")
as_found = max(lengths) / min(lengths) < 1.3 and formula[0] / formula[-1] > 500
print("as found: as long a step 0.001 from the minimum as 1 from it" if as_found else "CHANGED")
sys.exit(0 if as_found else 1)
PY
cd "$tmp" && "$tmp/venv/bin/python" check.py
