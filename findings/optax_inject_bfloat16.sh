#!/usr/bin/env bash
# optax: inject_hyperparams rounds every hyperparameter to the type of the parameters.
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


def updates(optimizer, dtype, steps=3):
    weights = jnp.ones(2, dtype)
    state = optimizer.init(weights)
    out = []
    for _ in range(steps):
        update, state = optimizer.update(jnp.full(2, 0.5, dtype), state, weights)
        out.append(float(update[0]))
    return out, getattr(state, "hyperparams", {})


print("optax", optax.__version__, "jax", jax.__version__)
print("guess: inject_hyperparams only makes the same numbers readable and settable")
inject = optax.inject_hyperparams
plain, _ = updates(optax.adamw(1e-3, b2=0.999), jnp.bfloat16)
injected, values = updates(inject(optax.adamw)(1e-3, b2=0.999), jnp.bfloat16)
wide, _ = updates(inject(optax.adamw, hyperparam_dtype=jnp.float32)(1e-3, b2=0.999), jnp.bfloat16)
full, _ = updates(inject(optax.adamw)(1e-3, b2=0.999), jnp.float32)
print("adamw, bfloat16 parameters, plain:", plain)
print("adamw, bfloat16 parameters, injected:", injected, "with b2 =", values["b2"])
print("the same, hyperparam_dtype=float32:", wide)
print("adamw, float32 parameters, injected:", full)
rms = dict(learning_rate=1e-3, decay=0.999)
rms_plain, _ = updates(optax.rmsprop(**rms), jnp.bfloat16)
rms_injected, _ = updates(inject(optax.rmsprop)(**rms), jnp.bfloat16)
print("rmsprop, bfloat16 parameters, plain:", rms_plain)
print("rmsprop, bfloat16 parameters, injected:", rms_injected)
finite = all(abs(u) < 0.0011 for u in plain + wide + full)
as_found = (finite and float(values["b2"]) == 1.0 and all(u != u for u in injected)
            and abs(rms_injected[2]) > 50 * abs(rms_plain[2]))
print("as found: 0.999 became 1" if as_found else "CHANGED")
sys.exit(0 if as_found else 1)
PY
cd "$tmp" && "$tmp/venv/bin/python" check.py
