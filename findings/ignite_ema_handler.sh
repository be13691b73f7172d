#!/usr/bin/env bash
# Ignite: under a name of one's own EMAHandler does not warm up, and its average has the trained model's own buffers.
set -eu
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
python3 -m venv "$tmp/venv"
"$tmp/venv/bin/pip" install -q pytorch-ignite==0.5.5 torch==2.13.0 numpy==2.4.6
cat >"$tmp/check.py" <<'PY'
import sys
import warnings

warnings.simplefilter("ignore")

import ignite
import torch
from ignite.engine import Engine, Events
from ignite.handlers import EMAHandler
from torch import nn

torch.set_num_threads(1)
MOMENTUM, WARM, STEPS = 0.002, 0.5, 20


def warmed_up(name):
    """A weight that is 1 from the first step on: the momentum of each step, and what the average is behind the last."""
    model = nn.Linear(1, 1, bias=False)
    nn.init.zeros_(model.weight)
    handler = EMAHandler(model, momentum=MOMENTUM, momentum_warmup=WARM, warmup_iters=STEPS)
    used = []

    def step(engine, batch):
        with torch.no_grad():
            model.weight.fill_(1.0)

    trainer = Engine(step)
    handler.attach(trainer, name=name)
    trainer.add_event_handler(Events.ITERATION_COMPLETED, lambda engine: used.append(getattr(engine.state, name)))
    trainer.run(range(STEPS))
    return used, handler.ema_model.weight.item()


def measured_anew(handle_buffers):
    """The trained model's running mean, before and behind update_bn() of its average."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    handler = EMAHandler(model, momentum=MOMENTUM, handle_buffers=handle_buffers)
    trainer = Engine(lambda engine, batch: model(batch))
    handler.attach(trainer)
    trainer.run([torch.randn(8, 2) for _ in range(3)])
    before = model[1].running_mean.tolist()
    torch.optim.swa_utils.update_bn([torch.randn(8, 2) + 5 for _ in range(4)], handler.ema_model)
    return before, model[1].running_mean.tolist()


print("pytorch-ignite", ignite.__version__, "torch", torch.__version__)
print("guess: an average warms up under whatever name its momentum is shown, and it has buffers of its own")
seen = {name: warmed_up(name) for name in ("ema_momentum", "generator_momentum")}
for name, (used, mean) in seen.items():
    print(f"attached as {name}: momentum {used[0]:.3f}, {used[STEPS // 2]:.3f}, {used[-1]:.3f}; of a weight that is 1 the average is {mean:.3f}")
(right, near), (constant, far) = seen.values()
as_found = right[0] == WARM and near > 0.95 and set(constant) == {MOMENTUM} and far < 0.05
for handle in ("copy", "update"):
    before, behind = measured_anew(handle)
    print(f'handle_buffers="{handle}": the trained model\'s running mean {before[0]:.2f} is {behind[0]:.2f} behind update_bn() of its average')
    as_found &= (before != behind) == (handle == "copy")
print("as found: the warm-up writes to another name, and copied buffers are the trained model's" if as_found else "CHANGED")
sys.exit(0 if as_found else 1)
PY
cd "$tmp" && "$tmp/venv/bin/python" check.py 2>log || { tail -20 log; exit 1; }
