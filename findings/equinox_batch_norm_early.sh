#!/usr/bin/env bash
# equinox: batch norm in mode 'batch' is evaluated with a variance that is too large for hundreds of steps.
set -eu
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
python3 -m venv "$tmp/venv"
"$tmp/venv/bin/pip" install -q equinox==0.13.8 jax==0.10.2 jaxlib==0.10.2 numpy==2.4.6
cat >"$tmp/check.py" <<'PY'
import sys

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

print("equinox", eqx.__version__, "jax", jax.__version__)
print("guess: after a few equal batches, evaluation normalises as training does")
batch = jnp.asarray(np.random.default_rng(0).normal(2.0, 0.1, (256, 1)), jnp.float32)


def deviations(mode, marks=(1, 10, 100, 500, 1000)):
    layer, state = eqx.nn.make_with_state(eqx.nn.BatchNorm)(1, axis_name="batch", mode=mode)

    def apply(layer, state):
        return jax.vmap(layer, axis_name="batch", in_axes=(0, None), out_axes=(0, None))(batch, state)

    train = jax.jit(lambda state: apply(layer, state))
    frozen = eqx.nn.inference_mode(layer)
    out = []
    for step in range(1, marks[-1] + 1):
        trained, state = train(state)
        if step in marks:
            evaluated, _ = apply(frozen, state)
            out.append((step, float(trained.std()), float(evaluated.std())))
    return out


wrong = deviations("batch")
right = deviations("ema")
for mode, rows in (("batch", wrong), ("ema", right)):
    for step, training, evaluation in rows:
        print(f"mode {mode}, step {step}: deviation {training:.3f} in training, {evaluation:.3f} in evaluation")
as_found = (all(abs(t - 1) < 0.01 for _, t, _ in wrong + right) and all(abs(e - 1) < 0.01 for _, _, e in right)
            and wrong[0][2] < 0.02 and wrong[2][2] < 0.2 and wrong[3][2] < 0.9 and abs(wrong[4][2] - 1) < 0.01)
print("as found: activations shrink in evaluation" if as_found else "CHANGED")
sys.exit(0 if as_found else 1)
PY
cd "$tmp" && "$tmp/venv/bin/python" check.py
