#!/usr/bin/env bash
# torchmetrics: whether scores are logits is found anew for each batch, so a measure depends on how its samples are cut into batches.
set -eu
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
python3 -m venv "$tmp/venv"
"$tmp/venv/bin/pip" install -q torchmetrics==1.9.0 torch==2.13.0 numpy==2.4.6
cat >"$tmp/check.py" <<'PY'
import sys

import torch
import torchmetrics
from torchmetrics.classification import BinaryAccuracy, BinaryAUROC, BinaryF1Score, MultilabelAccuracy

torch.set_num_threads(1)
SAMPLES, SIZES = 4096, (1, 8, 32, 4096)


def measured(metric, scores, labels, size):
    for first in range(0, len(scores), size):
        metric.update(scores[first : first + size], labels[first : first + size])
    return metric.compute().item()


print("torchmetrics", torchmetrics.__version__, "torch", torch.__version__)
print("guess: logits are known as such, or never, and a measure of the same scores is the same for each size of batch")
draw = torch.Generator().manual_seed(0)
labels = (torch.rand(SAMPLES, generator=draw) < 0.9).long()  # nine of ten are positive, and the model says so, not very loudly
logits = torch.where(labels == 1, 0.5, -0.3) + 0.2 * torch.randn(SAMPLES, generator=draw)
columns = [torch.stack([values] * 3, 1) for values in (logits, labels)]
METRICS = {
    "accuracy": (BinaryAccuracy, logits, labels),
    "F1": (BinaryF1Score, logits, labels),
    "area under the ROC": (BinaryAUROC, logits, labels),
    "accuracy of three labels": (lambda: MultilabelAccuracy(num_labels=3), *columns),
}
seen = {}
for name, (metric, scores, truth) in METRICS.items():
    seen[name] = [measured(metric(), scores, truth, size) for size in SIZES] + [measured(metric(), scores.sigmoid(), truth, 8)]
    print(f"{name}:", ", ".join(f"batches of {size} {value:.3f}" for size, value in zip(SIZES, seen[name])),
          f"; probabilities {seen[name][-1]:.3f}")
as_found = all(abs(values[-2] - values[-1]) < 1e-6 for values in seen.values())  # a single batch of all samples is right
as_found &= all(values[0] < values[-1] - 0.1 and values[1] < values[-1] - 0.05 for name, values in seen.items() if "ROC" not in name)
as_found &= seen["area under the ROC"][1] < seen["area under the ROC"][-1] - 0.02
print("as found: batches without a score below 0 or above 1 are taken for probabilities, and others not" if as_found else "CHANGED")
sys.exit(0 if as_found else 1)
PY
cd "$tmp" && "$tmp/venv/bin/python" check.py 2>log || { tail -20 log; exit 1; }
