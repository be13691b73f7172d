#!/usr/bin/env bash
# Lightning: StochasticWeightAveraging averages the weights that epochs begin with, so the last epoch is trained in vain.
set -eu
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
python3 -m venv "$tmp/venv"
"$tmp/venv/bin/pip" install -q lightning==2.6.6 torch==2.13.0 numpy==2.4.6
cat >"$tmp/check.py" <<'PY'
import logging
import sys
import warnings

import lightning
import torch
from lightning.pytorch.callbacks import StochasticWeightAveraging
from torch.utils.data import DataLoader, TensorDataset

logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
warnings.simplefilter("ignore")
torch.set_num_threads(1)
BATCHES = 4


class Climber(lightning.LightningModule):
    """One weight that begins at 0, and that every epoch moves by 1: so its value is the number of epochs behind it."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(1))
        self.ends = []

    def training_step(self, batch, index):
        return -(self.weight * batch[0]).mean()

    def on_train_epoch_end(self):
        self.ends.append(round(self.weight.item(), 4))

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=1 / BATCHES)


def train(epochs, start):
    """(the weight behind each epoch, the weight that the trained model has)"""
    averaging = StochasticWeightAveraging(swa_lrs=1 / BATCHES, swa_epoch_start=start)
    trainer = lightning.Trainer(max_epochs=epochs, callbacks=[averaging], accelerator="cpu", logger=False,
                                enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False)
    model = Climber()
    trainer.fit(model, DataLoader(TensorDataset(torch.ones(BATCHES, 1)), batch_size=1))
    return model.ends, model.weight.item()


def mean(values):
    return sum(values) / len(values)


print("lightning", lightning.__version__, "torch", torch.__version__)
print("guess: the mean of the weights behind each epoch, from the start epoch to the last, as a loop with torch.optim.swa_utils has it")
as_found = True
for epochs, start in ((10, 5), (3, 2), (2, 1)):
    ends, found = train(epochs, start)
    behind, before = mean(ends[start - 1:epochs]), mean([0.0, *ends][start - 1:epochs])
    print(f"{epochs} epochs, swa_epoch_start={start}: weights behind them {ends[0]:g} … {ends[-1]:g}, guess {behind:g}, seen {found:g},"
          f" which is the mean of what the epochs {start} to {epochs} began with ({before:g})")
    as_found &= ends[:epochs] == [float(epoch) for epoch in range(1, epochs + 1)] and abs(found - before) < 1e-4
print("as found: never the last epoch's weights, and with start 1 the untrained ones" if as_found else "CHANGED")
sys.exit(0 if as_found else 1)
PY
cd "$tmp" && "$tmp/venv/bin/python" check.py 2>log || { tail -20 log; exit 1; }
