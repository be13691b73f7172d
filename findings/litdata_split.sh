#!/usr/bin/env bash
# litdata: train_test_split and subsample take whole chunks, so a test split of data in order has classes that training never saw.
set -eu
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
python3 -m venv "$tmp/venv"
"$tmp/venv/bin/pip" install -q litdata==0.2.76 torch==2.13.0 numpy==2.4.6
cat >"$tmp/check.py" <<'PY'
import sys
from collections import Counter
from importlib.metadata import version

from litdata import StreamingDataset, optimize, train_test_split

CLASSES, OF_A_CLASS, CHUNK = 10, 60, 50


def label(number):
    return number // OF_A_CLASS  # in order, as folders are listed


def shown(labels):
    return " ".join(str(labels[c]) for c in range(CLASSES))


if __name__ == "__main__":
    print("litdata", version("litdata"))
    print("guess: train_test_split and subsample draw samples, so each part has about its share of every class")
    optimize(label, list(range(CLASSES * OF_A_CLASS)), "pictures", num_workers=1, chunk_size=CHUNK)
    every = Counter(StreamingDataset("pictures"))
    print("samples of each class:", shown(every))
    seen = {}
    for shuffle in (False, True):
        for share in (0.7, 0.75):
            parts = train_test_split(StreamingDataset("pictures", shuffle=shuffle), splits=[share, 1 - share], seed=5)
            seen[shuffle, share] = [Counter(part) for part in parts]
            print(f"shuffle={shuffle}, {share:.0%} to train, {1 - share:.0%} to test:", shown(seen[shuffle, share][0]), "and",
                  shown(seen[shuffle, share][1]))
    third = Counter(StreamingDataset("pictures", subsample=1 / 3, shuffle=True, seed=5))
    print("subsample=1/3:", shown(third))
    as_found = (all(all(train[c] + test[c] == every[c] for c in every) for train, test in seen.values())
                and all(any(test[c] and not train[c] for c in every) and any(train[c] and not test[c] for c in every)
                        for train, test in seen.values())
                and sum(third.values()) == 200 and any(third[c] == 0 for c in every))
    print("as found: the test asks for classes that were never trained" if as_found else "CHANGED")
    sys.exit(0 if as_found else 1)
PY
cd "$tmp" && "$tmp/venv/bin/python" check.py 2>log >seen || { cat seen; tail -20 log; exit 1; }
grep -v "^Create\|^Workers\|^Rank\|^Finished\|^Worker " "$tmp/seen"
