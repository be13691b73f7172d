#!/usr/bin/env bash
# Measures the parameter path, each figure beside its limit in the same run (docs/PERFORMANCE.md), prints one JSON line a
# measurement and, at the end, tables. Builds what it needs. Wants an idle machine, and about an hour and a half.
#   scripts/bench.sh [--quick] [--out FILE]
#     --quick      one server, 1 and 4 workers, 4 and 40 MB, 3 pairs: minutes
#     --out FILE   where everything goes, as one JSON file (default build/bench.json of the checkout); the lines that are
#                  already measured stand beside it while the rest is, in FILE.jsonl
# Ctrl-C or SIGTERM once: what is under way is stopped. Twice: it is ended at once.
# Exit status: 0 everything was measured, 1 something failed, 2 wrong usage. A figure below its target is no failure here,
# and a size that does not fit into the memory is left out.
set -euo pipefail
here=$PWD
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. scripts/lib/arguments.sh
. scripts/lib/processes.sh

# 15 pairs where there is a target, fewer where a figure only stands beside others.
pairs=15 others=5 sizes=(1 4 40 256 1000) counts=(1 4 16) shard_counts=(1 2) small=() through=()
quick='' out=''
read_arguments --quick "--out file" -- "$@"
if [ -n "$quick" ]; then
  pairs=3 others=3 sizes=(4 40) counts=(1 4) shard_counts=(1)
  small=(--steps 1000) through=(--rounds 3 --steps 20 --model cifar_cnn_small)
fi
case "$out" in
  '') result=build/bench.json ;;
  /*) result=$out ;;
  *) result=$here/$out ;;
esac
out=$result.jsonl applied=$result.apply decided=$result.decided
trap end_whole INT TERM

measure() { run_whole "$@" || exit 1; }
exchange() { measure tests/bench/exchange.py --json "$out" "$@"; }
bandwidth() {
  measure build/release/bin/bench_memory_bandwidth 64 >>"$out"
  tail -n 1 "$out"
}
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
apply=build/release/bin/bench_apply_bandwidth decide=build/release/bin/bench_step_decision
for program in "$apply" "$decide"; do
  [ -x "$program" ] || fail "$program was not built: Google Benchmark is missing (scripts/install_deps.sh installs it)" 1
done
: >"$out"
: >"$applied" # or, if it cannot be written, that would be Google Benchmark's exit status 1, too
: >"$decided"

echo "== what memory can do" >&2
bandwidth
echo "== a step of push + SGD + pull beside a raw ZeroMQ loop, by shards, workers and model size: asp, then bsp" >&2
for shards in "${shard_counts[@]}"; do
  for workers in "${counts[@]}"; do
    n=$others
    if [ "$shards" -eq 1 ] && [ "$workers" -le 4 ]; then n=$pairs; fi
    exchange --pairs "$n" --mb "${sizes[@]}" --workers "$workers" --shards "$shards"
    exchange --pairs "$others" --mb "${sizes[@]}" --workers "$workers" --shards "$shards" --policy bsp
  done
done
echo "== the same in shared memory, beside a raw loop that shares memory" >&2
exchange --pairs "$pairs" --transport shared --mb "${sizes[@]}"
exchange --pairs "$others" --transport shared --mb 40 --workers 4
echo "== small steps: 100 bytes, one worker and 64" >&2
judged tests/bench/small_messages.py --pairs "$pairs" --json "$out" "${small[@]}"
echo "== what a step decision costs" >&2
judged "$decide" --benchmark_out="$decided" --benchmark_out_format=json >&2
echo "== applying gradients beside loops with the same loads and stores" >&2
judged "$apply" --benchmark_out="$applied" --benchmark_out_format=json >&2
echo "== a training loop with and without the server" >&2
measure tests/bench/through_server.py --limit 0 --json "$out" "${through[@]}"
echo "== memory" >&2
judged tests/bench/memory.py --json "$out"
echo "== what measuring costs" >&2
judged build/release/bin/bench_recorder_cost 35 >&2
echo "== what simulating costs" >&2
judged build/release/bin/bench_simulate >&2
echo "== what memory can do, again: has the machine changed meanwhile?" >&2
bandwidth
measure tests/bench/table.py "$out" "apply=$applied" "step_decision=$decided" --json "$result" >&2
rm -f "$applied" "$decided" "$out"
