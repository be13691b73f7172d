#!/usr/bin/env bash
# orbax: a run that goes back to an earlier checkpoint saves nothing, and a restart takes the abandoned one.
set -eu
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
python3 -m venv "$tmp/venv"
"$tmp/venv/bin/pip" install -q orbax-checkpoint==0.12.8 jax==0.10.2 jaxlib==0.10.2 numpy==2.4.6
cat >"$tmp/check.py" <<'PY'
import logging
import os
import sys

import jax.numpy as jnp
import orbax.checkpoint as ocp
from importlib.metadata import version

logging.disable(logging.WARNING)
print("orbax-checkpoint", version("orbax-checkpoint"))
print("guess: after a rollback to step 200, saves at 250 and 300 are written (or refused loudly)")


def manager():
    options = ocp.CheckpointManagerOptions(max_to_keep=3, enable_async_checkpointing=False)
    return ocp.CheckpointManager(os.path.abspath("run"), options=options)


def save(m, step, value):
    return m.save(step, args=ocp.args.StandardSave({"w": jnp.full(1, value)}))


with manager() as m:
    for step in (100, 200, 300):
        save(m, step, float(step))
with manager() as m:  # the run diverged at 300: go back to 200 and train on with another rate
    m.restore(200, args=ocp.args.StandardRestore())
    answers = {step: save(m, step, -float(step)) for step in (250, 275, 300)}
with manager() as m:  # the next restart
    latest = m.latest_step()
    value = float(m.restore(latest, args=ocp.args.StandardRestore())["w"][0])
print("answers of save() after the rollback:", answers)
print(f"the next restart takes step {latest} with the value {value:g} (the rolled-back run would be negative)")
as_found = not any(answers.values()) and (latest, value) == (300, 300.0)
print("as found: nothing saved, no error raised" if as_found else "CHANGED")
sys.exit(0 if as_found else 1)
PY
cd "$tmp" && "$tmp/venv/bin/python" check.py
