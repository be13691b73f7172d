#!/usr/bin/env bash
# orbax: one NaN among the metrics makes the manager delete the best checkpoint.
set -eu
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
python3 -m venv "$tmp/venv"
"$tmp/venv/bin/pip" install -q orbax-checkpoint==0.12.8 jax==0.10.2 jaxlib==0.10.2 numpy==2.4.6
cat >"$tmp/check.py" <<'PY'
import logging
import os
import sys
import tempfile

import jax.numpy as jnp
import orbax.checkpoint as ocp
from importlib.metadata import version

logging.disable(logging.WARNING)
print("orbax-checkpoint", version("orbax-checkpoint"))
print("guess: with max_to_keep=2 and best_fn the two highest accuracies stay, a NaN counts as worst or is refused")


def kept(accuracies):
    options = ocp.CheckpointManagerOptions(
        max_to_keep=2, best_fn=lambda m: m["accuracy"], best_mode="max", enable_async_checkpointing=False)
    with ocp.CheckpointManager(tempfile.mkdtemp(dir=os.getcwd()), options=options) as manager:
        for step, accuracy in enumerate(accuracies, 1):
            manager.save(step, args=ocp.args.StandardSave({"w": jnp.zeros(1)}), metrics={"accuracy": accuracy})
        return manager.all_steps(), manager.best_step()


nan = float("nan")
seen = {}
for accuracies in ((0.1, 0.9, 0.2, 0.1, 0.3), (0.1, 0.9, 0.2, nan, 0.3), (0.9, nan, 0.1, 0.2)):
    seen[accuracies] = kept(accuracies)
    print(f"accuracies {accuracies}: kept steps {seen[accuracies][0]}, best step {seen[accuracies][1]}")
clean, middle, early = seen.values()
as_found = clean == ([2, 5], 2) and 2 not in middle[0] and middle[1] != 2 and 1 not in early[0]
print("as found: the checkpoint with 0.9 is gone" if as_found else "CHANGED")
sys.exit(0 if as_found else 1)
PY
cd "$tmp" && "$tmp/venv/bin/python" check.py
