#!/usr/bin/env bash
# PyTorch, Lightning: a moving average of a model with its buffers cuts indices to smaller ones, at decays such as 0.9999.
set -eu
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
python3 -m venv "$tmp/venv"
"$tmp/venv/bin/pip" install -q torch==2.13.0 numpy==2.4.6 lightning==2.6.6
cat >"$tmp/check.py" <<'PY'
import logging
import sys
import warnings

logging.disable(logging.CRITICAL)
warnings.simplefilter("ignore")

import lightning
import torch
from lightning.pytorch.callbacks import EMAWeightAveraging
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_avg_fn, get_ema_multi_avg_fn

torch.set_num_threads(1)
SIDE = 8  # a window of 8 x 8 places, each pair of which has its row in a table of 225 learned values
PAIRS = SIDE**4
DECAYS = (0.99, 0.995, 0.997, 0.999, 0.9995, 0.9999, 0.99998)
LOSING = (0.997, 0.9995, 0.9999, 0.99998)


class Window(lightning.LightningModule):
    """Relative places as of windowed attention: a table of values, and a buffer that says which row belongs to a pair of places."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.table = nn.Parameter(torch.randn((2 * SIDE - 1) ** 2))
        place = torch.stack(torch.meshgrid(*[torch.arange(SIDE)] * 2, indexing="ij")).flatten(1)
        apart = place[:, :, None] - place[:, None, :] + SIDE - 1
        self.register_buffer("row", apart[0] * (2 * SIDE - 1) + apart[1])

    def forward(self):
        return self.table[self.row]

    def training_step(self, batch):
        return 0.0 * self.table.sum()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


def compared(before, after):
    (rows, values), (rows_now, values_now) = before, after
    return (rows != rows_now).float().mean().item(), ((values - values_now).norm() / values.norm()).item()


def state(model):
    return model.row.clone(), model().detach().clone()


def averaged(**average):
    model = Window()
    mean = AveragedModel(model, use_buffers=True, **average)
    for _ in range(100):
        mean.update_parameters(model)
    return compared(state(model), state(mean.module))


def trained(decay):
    model = Window()
    before = state(model)
    lightning.Trainer(max_epochs=1, logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
                      accelerator="cpu", callbacks=EMAWeightAveraging(decay=decay)).fit(model, torch.utils.data.DataLoader(range(100)))
    return compared(before, state(model))


print("torch", torch.__version__, "lightning", lightning.__version__)
print("guess: the moving average of a model that does not change is that model, whatever the decay")
as_found = True
for decay in DECAYS:
    off = {"avg_fn": averaged(avg_fn=get_ema_avg_fn(decay)), "multi_avg_fn": averaged(multi_avg_fn=get_ema_multi_avg_fn(decay)),
           "Lightning": trained(decay)}
    print(f"decay {decay}: indices wrong and outputs off by", ", ".join(f"{rows:.0%} and {far:.0%} ({way})" for way, (rows, far) in off.items()))
    as_found &= all((rows > 0.1 and far > 0.3) if decay in LOSING else (rows == 0 and far < 1e-4) for rows, far in off.values())
print("as found: whole numbers are averaged too and cut, so an index falls where its mean is rounded down" if as_found else "CHANGED")
sys.exit(0 if as_found else 1)
PY
cd "$tmp" && "$tmp/venv/bin/python" check.py 2>log || { tail -20 log; exit 1; }
