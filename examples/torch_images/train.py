"""An image classifier in PyTorch as a node of a Paceline run.

    train.py DATA [--config images.yaml] [--node I] [key.path=value …]

DATA: a folder in CIFAR-10's binary format, the real one or what `paceline data synthesize` makes. Start it once for each
node, beside paceline-server with the same configuration.
"""

import argparse
import pathlib

import numpy as np
import torch
from torch import nn
from torch.nn import functional

import paceline.torch


def read(folder, pattern):
    """Images as float32 in [-1, 1], (n, 3, 32, 32), and labels."""
    rows = np.concatenate([np.fromfile(file, np.uint8).reshape(-1, 3073) for file in sorted(pathlib.Path(folder).rglob(pattern))])
    return torch.from_numpy(rows[:, 1:].reshape(-1, 3, 32, 32).astype(np.float32) / 127.5 - 1), torch.from_numpy(rows[:, 0].astype(np.int64))


def network():
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data")
    parser.add_argument("overrides", nargs="*", metavar="key.path=value")
    parser.add_argument("--config", default=str(pathlib.Path(__file__).parent / "images.yaml"))
    parser.add_argument("--node", type=int)
    given = parser.parse_intermixed_args()
    torch.set_num_threads(1)  # a node for each core
    x, y = read(given.data, "data_batch_*.bin")
    test_x, test_y = read(given.data, "test_batch.bin")
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)

    def measure(copy):
        scores = torch.cat([copy(part) for part in test_x.split(256)])
        return functional.cross_entropy(scores, test_y), (scores.argmax(1) == test_y).sum(), len(test_y)

    with paceline.torch.attach(model, optimizer, given.config, node=given.node, evaluate=measure, overrides=given.overrides) as run:
        # Each node shuffles by itself: they draw from all images.
        shuffled = torch.Generator().manual_seed(run.worker.node)
        samples = int(run.worker.value("train.batch_size"))
        while True:  # until the run is over
            for batch in torch.randperm(len(x), generator=shuffled).split(samples):
                scores = model(x[batch])
                loss = functional.cross_entropy(scores, y[batch])
                optimizer.zero_grad()
                loss.backward()
                run.report(loss, correct=(scores.argmax(1) == y[batch]).sum())
                optimizer.step()


if __name__ == "__main__":
    main()
