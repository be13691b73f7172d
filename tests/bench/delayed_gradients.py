#!/usr/bin/python3
"""What staleness alone does: plain PyTorch on CIFAR-10 with every gradient computed at parameters `delay` steps old.

The network is cifar_cnn_small with He's initial weights, Adam with a linear warm-up, no augmentation, one thread. Prints
the mean training loss of steps 0-78 and 79-157 for each delay; docs/EXPERIMENTS.md compares them with SSP.

usage: delayed_gradients.py CIFAR10_DIR [--lr 5e-4] [--warmup 100] [--delays 0 3]
needs: python3-torch, python3-numpy (Debian)
"""
import argparse
import collections
import pathlib

import numpy as np
import torch
from torch import nn

STEPS = 158
BATCH = 256


def network():
    torch.manual_seed(1)
    layers = nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1), nn.MaxPool2d(2), nn.ReLU(),
        nn.Conv2d(32, 64, 3, padding=1), nn.MaxPool2d(2), nn.ReLU(),
        nn.Flatten(), nn.Linear(4096, 128), nn.ReLU(), nn.Linear(128, 10))
    for layer in layers:
        if hasattr(layer, "weight"):
            nn.init.kaiming_normal_(layer.weight)
            nn.init.zeros_(layer.bias)
    return layers


def set_all(parameters, values):
    with torch.no_grad():
        for parameter, value in zip(parameters, values):
            parameter.copy_(value)


def losses_with(delay, images, labels, lr, warmup):
    net = network()
    parameters = list(net.parameters())
    optimizer = torch.optim.Adam(parameters, lr=lr)
    history, losses = collections.deque(maxlen=delay + 1), []
    for step in range(STEPS):
        now = [p.detach().clone() for p in parameters]
        history.append(now)
        set_all(parameters, history[0])  # as they were `delay` steps ago
        chosen = torch.randint(0, len(images), (BATCH,))
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(net(images[chosen]), labels[chosen])
        loss.backward()
        losses.append(loss.item())
        set_all(parameters, now)
        for group in optimizer.param_groups:
            group["lr"] = lr * min(1.0, (step + 1) / warmup)
        optimizer.step()
    return losses


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--lr", type=float, default=5e-4)
    parser.add_argument("--warmup", type=int, default=100)
    parser.add_argument("--delays", type=int, nargs="+", default=[0, 3])
    options = parser.parse_args()
    torch.set_num_threads(1)
    raw = np.concatenate([np.fromfile(options.folder / f"data_batch_{i}.bin", np.uint8).reshape(-1, 3073)
                          for i in (1, 2)])
    images = torch.tensor(raw[:, 1:].reshape(-1, 3, 32, 32)).float() / 255
    images = (images - images.mean((0, 2, 3), keepdim=True)) / images.std((0, 2, 3), keepdim=True)
    labels = torch.tensor(raw[:, 0].astype(np.int64))
    for delay in options.delays:
        losses = losses_with(delay, images, labels, options.lr, options.warmup)
        print(f"delay {delay}: mean loss {np.mean(losses[:79]):.3f} in steps 0-78, "
              f"{np.mean(losses[79:]):.3f} in 79-157", flush=True)


if __name__ == "__main__":
    main()
