#!/usr/bin/env bash
# Measures the parameter path, each figure beside its limit in the same run (docs/PERFORMANCE.md), prints one JSON line a
# measurement and appends it to a file. Builds what it needs. Wants an idle machine; minutes.
#   scripts/bench.sh [--quick] [--out FILE]
#     --quick      3 pairs instead of 15, no model beyond 40 MB
#     --out FILE   where the lines go, too (default build/bench.jsonl, begun anew)
# Exit status: 0 everything was measured, 1 something failed, 2 wrong usage. A figure below its target is no failure here.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

pairs=15 sizes=(4 40 256 1000) out=build/bench.jsonl
while [ $# -gt 0 ]; do
  case "$1" in
    -h | --help) sed -n '2,7s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; exit 0 ;;
    --quick) pairs=3 sizes=(4 40) ;;
    --out) [ $# -ge 2 ] || { echo "bench: --out needs a file" >&2; exit 2; }; out=$2; shift ;;
    *) echo "bench: unknown argument '$1' (see --help)" >&2; exit 2 ;;
  esac
  shift
done

scripts/build.sh release benchmarks >&2
: >"$out"
exchange() { tests/bench/exchange.py --pairs "$pairs" --json "$out" "$@"; }

echo "== a step of push + SGD + pull beside a raw ZeroMQ loop, by model size: asp, then bsp" >&2
exchange --mb "${sizes[@]}"
exchange --mb 4 40 --policy bsp
echo "== several workers, several shards" >&2
exchange --mb 40 --workers 4
exchange --mb 4 --workers 16
exchange --mb 40 --shards 2
echo "== small steps: 100 floats, round trips" >&2
exchange --mb 0.0004
echo "== applying gradients beside loops with the same loads and stores" >&2
build/release/bin/bench_apply_bandwidth --benchmark_out="${out%.jsonl}-apply.json" --benchmark_out_format=json >&2 ||
  echo "bench: an optimizer is below its limit" >&2
echo "== a training loop with and without the server" >&2
tests/bench/through_server.py --limit 0 | tee -a "$out"
echo "== what measuring costs" >&2
build/release/bin/bench_recorder_cost 35 >&2
