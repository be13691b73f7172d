#!/usr/bin/env bash
# torchmetrics: metrics of a collection whose counts are equal behind the first mini-batch share them for good, so one gives the other's figure.
set -eu
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
python3 -m venv "$tmp/venv"
"$tmp/venv/bin/pip" install -q torchmetrics==1.9.0 torch==2.13.0 numpy==2.4.6
cat >"$tmp/check.py" <<'PY'
import sys
import warnings

warnings.simplefilter("ignore")

import torch
import torchmetrics
from torchmetrics import MetricCollection, MinkowskiDistance
from torchmetrics.classification import BinaryRecall, MulticlassAccuracy

torch.set_num_threads(1)
SAMPLES, SIZE, CLASSES = 512, 8, 5
draw = torch.Generator().manual_seed(0)
truth = torch.randint(2, (SAMPLES,), generator=draw)
scores = (torch.where(truth == 1, 0.65, 0.35) + 0.1 * torch.randn(SAMPLES, generator=draw)).clamp(0, 1)
scores[:SIZE] = torch.where(truth[:SIZE] == 1, 0.9, 0.1)  # of the first mini-batch the model is sure
labels = torch.randint(1, CLASSES, (SAMPLES,), generator=draw)
labels[SIZE::2] = 0  # the class of what is no object, half of all samples, none of them in the first mini-batch
guesses = torch.where(torch.rand(SAMPLES, generator=draw) < 0.9, labels, (labels + 1) % CLASSES)
guesses[labels > 0] = torch.randint(1, CLASSES, (int((labels > 0).sum()),), generator=draw)
away = torch.where(torch.arange(SAMPLES) < SIZE, 1.0, 1 + torch.rand(SAMPLES, generator=draw))
CASES = {
    "recall at 0.5 and at 0.7": ([lambda at=at: BinaryRecall(threshold=at) for at in (0.5, 0.7)], scores, truth),
    "accuracy of all and without class 0": ([lambda no=no: MulticlassAccuracy(CLASSES, average="micro", ignore_index=no) for no in (None, 0)],
                                            guesses, labels),
    "distance of order 2 and of order 4": ([lambda order=order: MinkowskiDistance(order) for order in (2, 4)], away, torch.zeros(SAMPLES)),
}


def measured(metrics, values, targets, **options):
    collection = MetricCollection({str(place): metric() for place, metric in enumerate(metrics)}, **options)
    for first in range(0, SAMPLES, SIZE):
        collection.update(values[first : first + SIZE], targets[first : first + SIZE])
    return [value.item() for value in collection.compute().values()]


print("torchmetrics", torchmetrics.__version__, "torch", torch.__version__)
print("guess: a metric has the same figure in a collection as alone")
as_found = True
for name, (metrics, *data) in CASES.items():
    alone = [measured([metric], *data)[0] for metric in metrics]
    together, apart = measured(metrics, *data), measured(metrics, *data, compute_groups=False)
    print(f"{name}:", "; ".join(f"{way} {first:.3f} and {second:.3f}" for way, (first, second) in
                                {"alone": alone, "in a collection": together, "with compute_groups=False": apart}.items()))
    as_found &= apart == alone and together[0] == alone[0] and abs(together[1] / alone[1] - 1) > 0.2
print("as found: metrics whose counts are equal behind the first mini-batch share them from then on" if as_found else "CHANGED")
sys.exit(0 if as_found else 1)
PY
cd "$tmp" && "$tmp/venv/bin/python" check.py 2>log || { tail -20 log; exit 1; }
