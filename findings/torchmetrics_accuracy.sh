#!/usr/bin/env bash
# torchmetrics: Accuracy and the class that it makes have other defaults, so one model has two accuracies.
set -eu
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
python3 -m venv "$tmp/venv"
"$tmp/venv/bin/pip" install -q torchmetrics==1.9.0 torch==2.13.0 numpy==2.4.6
cat >"$tmp/check.py" <<'PY'
import sys

import torch
import torchmetrics
from torchmetrics import functional
from torchmetrics.classification import MulticlassAccuracy, MulticlassF1Score
from torchmetrics.functional.classification import multiclass_accuracy

CLASSES = 3
print("torchmetrics", torchmetrics.__version__)
print("guess: Accuracy(task=\"multiclass\") is another name of MulticlassAccuracy, and both count the right answers")
labels = torch.tensor([0] * 80 + [1] * 15 + [2] * 5)
answers = torch.tensor([0] * 80 + [1] * 9 + [0] * 11)  # right: all of the first class, nine of the second, none of the third
right = (answers == labels).float().mean().item()
general = torchmetrics.Accuracy(task="multiclass", num_classes=CLASSES)
seen = {
    "right answers": right,
    "Accuracy(task=…)": general(answers, labels).item(),
    "functional.accuracy(task=…)": functional.accuracy(answers, labels, task="multiclass", num_classes=CLASSES).item(),
    "MulticlassAccuracy": MulticlassAccuracy(num_classes=CLASSES)(answers, labels).item(),
    "functional multiclass_accuracy": multiclass_accuracy(answers, labels, CLASSES).item(),
    "F1Score(task=…)": torchmetrics.F1Score(task="multiclass", num_classes=CLASSES)(answers, labels).item(),
    "MulticlassF1Score": MulticlassF1Score(num_classes=CLASSES)(answers, labels).item(),
}
for name, value in seen.items():
    print(f"{name}: {value:.3f}")
print("what Accuracy made is a", type(general).__name__)
metric = MulticlassAccuracy(num_classes=CLASSES)
batches = [metric(a, b).item() for a, b in zip(answers.split(20), labels.split(20))]
print(f"MulticlassAccuracy by batches of 20: their mean {sum(batches) / 5:.3f}, compute() {metric.compute().item():.3f}")
near = lambda name, value: abs(seen[name] - value) < 1e-3
as_found = (type(general) is MulticlassAccuracy and all(near(name, 0.89) for name in list(seen)[:3])
            and near("MulticlassAccuracy", 1.6 / 3) and near("functional multiclass_accuracy", 1.6 / 3)
            and near("F1Score(task=…)", 0.89) and seen["MulticlassF1Score"] < 0.6)
print("as found: one is the mean over answers, the other over classes" if as_found else "CHANGED")
sys.exit(0 if as_found else 1)
PY
cd "$tmp" && "$tmp/venv/bin/python" check.py 2>log || { tail -20 log; exit 1; }
