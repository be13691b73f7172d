"""An image classifier in PyTorch as a node of a Paceline run.

    train.py DATA [--config images.yaml] [--node I] [key.path=value …]

DATA: a folder in CIFAR-10's binary format, the real one or what `paceline data synthesize` makes; or one of pictures, with
data.kind=images and how many classes there are. Start it once for each node, beside paceline-server with the same
configuration.
"""

import argparse
import os
import pathlib

import torch
from torch import nn
from torch.nn import functional

import paceline.data
import paceline.torch


def network(classes):
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        nn.Linear(64, classes))


def tensors_of(batches):
    """Images and labels, in the loader's own memory."""
    for batch in batches:
        yield torch.from_numpy(batch.images), torch.from_numpy(batch.labels)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data")
    parser.add_argument("overrides", nargs="*", metavar="key.path=value")
    parser.add_argument("--config", default=str(pathlib.Path(__file__).parent / "images.yaml"))
    parser.add_argument("--node", type=int, default=os.environ.get("RANK"), required="RANK" not in os.environ)
    given = parser.parse_intermixed_args()
    overrides = [f"data.path={given.data}", *given.overrides]
    torch.set_num_threads(1)  # a node for each core
    data = paceline.data.Data(given.config, given.node, overrides=overrides)
    model = network(data.classes)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)

    def measure(copy):
        loss, correct, samples = 0.0, 0, 0
        for x, y in tensors_of(data.test()):
            scores = copy(x)
            loss += float(functional.cross_entropy(scores, y, reduction="sum"))
            correct, samples = correct + int((scores.argmax(1) == y).sum()), samples + len(y)
        return loss / samples, correct, samples

    with data, paceline.torch.attach(model, optimizer, given.config, node=given.node, evaluate=measure, overrides=overrides) as run:
        for x, y in tensors_of(data):  # without an end: until the run is over
            scores = model(x)
            loss = functional.cross_entropy(scores, y)
            optimizer.zero_grad()
            loss.backward()
            run.report(loss, correct=(scores.argmax(1) == y).sum())
            optimizer.step()


if __name__ == "__main__":
    main()
