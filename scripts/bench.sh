#!/usr/bin/env bash
# Measures the parameter path, each figure beside its limit in the same run (docs/PERFORMANCE.md), prints one JSON line a
# measurement and appends it to a file. Builds what it needs. Wants an idle machine; minutes.
#   scripts/bench.sh [--quick] [--out FILE]
#     --quick      3 pairs instead of 15, no model beyond 40 MB
#     --out FILE   where the lines go, too (default build/bench.jsonl of the checkout, begun anew)
# Ctrl-C or SIGTERM once: what is under way is stopped. Twice: it is ended at once.
# Exit status: 0 everything was measured, 1 something failed, 2 wrong usage. A figure below its target is no failure here.
set -euo pipefail
here=$PWD
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. scripts/lib/processes.sh
fail() { echo "bench: $1" >&2; exit "${2:-2}"; }

pairs=15 sizes=(4 40 256 1000) out=build/bench.jsonl
while [ $# -gt 0 ]; do
  case "$1" in
    -h | --help) sed -n '2,8s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; exit 0 ;;
    --quick) pairs=3 sizes=(4 40) ;;
    --out)
      [ $# -ge 2 ] || fail "--out needs a file"
      case "$2" in /*) out=$2 ;; *) out=$here/$2 ;; esac
      shift
      ;;
    *) fail "unknown argument '$1' (see --help)" ;;
  esac
  shift
done
trap end_whole INT TERM

measure() { run_whole "$@" || exit 1; }
exchange() { measure tests/bench/exchange.py --pairs "$pairs" --json "$out" "$@"; }
# Programs whose exit status 1 says that a figure missed its target; anything else went wrong.
judged() {
  local status=0
  run_whole "$@" || status=$?
  case "$status" in
    0) ;;
    1) echo "bench: $(basename "$1"): a figure missed its target" >&2 ;;
    *) fail "$(basename "$1") ended with status $status" 1 ;;
  esac
}

measure scripts/build.sh release benchmarks >&2
apply=build/release/bin/bench_apply_bandwidth applied=${out%.jsonl}-apply.json
[ -x "$apply" ] || fail "$apply was not built: Google Benchmark is missing (scripts/install_deps.sh installs it)" 1
: >"$out"
: >"$applied" # or, if it cannot be written, that would be Google Benchmark's exit status 1, too

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
judged "$apply" --benchmark_out="$applied" --benchmark_out_format=json >&2
echo "== a training loop with and without the server" >&2
measure tests/bench/through_server.py --limit 0 --json "$out"
echo "== what measuring costs" >&2
judged build/release/bin/bench_recorder_cost 35 >&2
