#!/usr/bin/env bash
# WebDataset: shards are shuffled once, and come in that order in every epoch; detshuffle=True helps only without workers.
set -eu
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
python3 -m venv "$tmp/venv"
"$tmp/venv/bin/pip" install -q webdataset==1.0.2 torch==2.13.0 numpy==2.4.6
cat >"$tmp/check.py" <<'PY'
import sys
from importlib.metadata import version

import webdataset
from torch.utils.data import DataLoader

SHARDS, OF_A_SHARD, EPOCHS = 8, 5, 4


def shards_read(options, **loader):
    """For each epoch the shards in the order in which their first samples came."""
    dataset = (webdataset.WebDataset("{000..007}.tar", shardshuffle=SHARDS, **options).decode()
               .to_tuple("cls").map(lambda sample: int(sample[0])))
    loader = DataLoader(dataset, batch_size=None, **loader)
    epochs = [list(loader) for _ in range(EPOCHS)]
    assert all(sorted(epoch) == list(range(SHARDS * OF_A_SHARD)) for epoch in epochs)
    return [tuple(dict.fromkeys(number // OF_A_SHARD for number in epoch)) for epoch in epochs]


if __name__ == "__main__":
    print("webdataset", version("webdataset"))
    print("guess: shardshuffle deals the shards anew in each epoch, with detshuffle=True by the seed and the epoch's number")
    with webdataset.ShardWriter("%03d.tar", maxcount=OF_A_SHARD, verbose=0) as writer:
        for number in range(SHARDS * OF_A_SHARD):
            writer.write({"__key__": f"{number:04d}", "cls": number})
    deterministic = {"detshuffle": True, "seed": 7}
    seen = {
        "no seed, no worker": shards_read({}),
        "no seed, 2 workers": shards_read({}, num_workers=2),
        "no seed, 2 workers that persist": shards_read({}, num_workers=2, persistent_workers=True),
        "detshuffle, no worker": shards_read(deterministic),
        "detshuffle, 2 workers": shards_read(deterministic, num_workers=2),
        "detshuffle, 2 workers that persist": shards_read(deterministic, num_workers=2, persistent_workers=True),
    }
    different = {}
    for name, epochs in seen.items():
        different[name] = len(set(epochs))
        print(f"{name}: {different[name]} orders in {EPOCHS} epochs: " + " ".join("".join(map(str, epoch)) for epoch in epochs))
    anew = ("detshuffle, no worker", "detshuffle, 2 workers that persist")
    as_found = all((count > 1) if name in anew else (count == 1) for name, count in different.items())
    print("as found: the shards keep the first epoch's order" if as_found else "CHANGED")
    sys.exit(0 if as_found else 1)
PY
cd "$tmp" && "$tmp/venv/bin/python" check.py 2>log || { tail -20 log; exit 1; }
