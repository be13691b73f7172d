"""A small GPT in PyTorch as a node of a Paceline run, on sentences that the program makes up.

    python -m paceline.launch examples/torch_gpt/gpt.yaml examples/torch_gpt/train.py
    train.py [--config gpt.yaml] [--node I] [key.path=value …]     one node; paceline-server with the same beside it

Each node's AdamW takes its own steps, and the servers average what eight of them have changed (mode="worker").
"""

import argparse
import pathlib
import random

import torch
from torch import nn
from torch.nn import functional

import paceline.torch

CONTEXT, BATCH, LOCAL_STEPS = 64, 16, 8
ANIMALS, COLOURS, ACTIONS = ("fox", "owl", "hen", "cat", "dog"), ("red", "old", "small"), ("sees", "follows", "wakes")
LETTERS = " .abcdefghijklmnopqrstuvwxyz"


def sentences(seed):
    """Text without an end. "the old fox sees two hens." """
    made = random.Random(seed)
    while True:
        count = made.choice(("a", "two"))
        yield (f"the {made.choice(COLOURS)} {made.choice(ANIMALS)} {made.choice(ACTIONS)} {count} "
               f"{made.choice(ANIMALS)}{'s' if count == 'two' else ''}. ")


def batches(seed):
    """Letters, and those that come next: (BATCH, CONTEXT) of each."""
    text, letters = sentences(seed), []
    while True:
        while len(letters) < BATCH * (CONTEXT + 1):
            letters += [LETTERS.index(letter) for letter in next(text)]
        rows = torch.tensor(letters[:BATCH * (CONTEXT + 1)]).view(BATCH, -1)
        del letters[:rows.numel()]
        yield rows[:, :-1], rows[:, 1:]


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        q, k, v = (part.unflatten(2, (self.heads, -1)).transpose(1, 2) for part in self.qkv(self.norm1(x)).chunk(3, 2))
        seen = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(seen.transpose(1, 2).flatten(2))
        return x + self.narrow(functional.gelu(self.wide(self.norm2(x))))


class Gpt(nn.Module):
    """The first and the last matrix are one (tied)."""

    def __init__(self, width=64, heads=4, depth=2):
        super().__init__()
        self.letters, self.places = nn.Embedding(len(LETTERS), width), nn.Embedding(CONTEXT, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(depth)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, len(LETTERS), bias=False)
        for embedding in (self.letters, self.places):  # alike, or the places would drown the letters
            nn.init.normal_(embedding.weight, std=0.02)
        self.head.weight = self.letters.weight

    def forward(self, x):
        return self.head(self.norm(self.blocks(self.letters(x) + self.places.weight[:x.shape[1]])))


def loss_of(scores, following):
    return functional.cross_entropy(scores.flatten(0, 1), following.flatten())


def measure(model):
    """On text that no node trains on."""
    x, y = next(batches(seed="a text of its own"))
    scores = model(x)
    return loss_of(scores, y), int((scores.argmax(2) == y).sum()), y.numel()


def written(model, letters=60):
    """What the model writes after "the "."""
    text = [LETTERS.index(letter) for letter in "the "]
    with torch.no_grad():
        for _ in range(letters):
            text.append(int(model(torch.tensor([text[-CONTEXT:]]))[0, -1].argmax()))
    return "".join(LETTERS[letter] for letter in text)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("overrides", nargs="*", metavar="key.path=value")
    parser.add_argument("--config", default=str(pathlib.Path(__file__).parent / "gpt.yaml"))
    parser.add_argument("--node", type=int)
    given = parser.parse_intermixed_args()
    torch.set_num_threads(1)  # a node for each core
    torch.manual_seed(1)
    model = Gpt()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    with paceline.torch.attach(model, optimizer, given.config, node=given.node, mode="worker", local_steps=LOCAL_STEPS,
                               evaluate=measure, overrides=given.overrides) as run:
        for x, y in batches(seed=run.worker.node):
            loss = loss_of(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            run.report(loss)
            optimizer.step()
    if run.worker.node == 0:
        print(written(model.eval()))


if __name__ == "__main__":
    main()
