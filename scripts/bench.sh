#!/usr/bin/env bash
# Measures the parameter path, each figure beside its limit in the same run (docs/PERFORMANCE.md), prints one JSON line
# a measurement and, at the end, tables. Builds what it needs. Wants an idle machine: by estimate an hour for the
# figures that have a target, which come first, and two and a half to three hours for all.
#   scripts/bench.sh [--targets] [--quick] [--out FILE]
#     --targets    only the figures that have a target
#     --quick      one server, 1 and 4 workers, 4 and 40 MB, 3 pairs: minutes
#     --out FILE   where everything goes, as one JSON file (default build/bench.json of the checkout); the lines that
#                  are
#                  already measured stand beside it while the rest is, in FILE.jsonl
# Ctrl-C or SIGTERM once, or SIGHUP: what is under way is stopped. Twice: it is ended at once. Begun again with the same
# --out, it goes on: what stands in FILE.jsonl, measured by the same programs with the same options, is not measured
# again. Exit status: 0 everything was measured, 1 something failed, 2 wrong usage. A figure below its target is no
# failure here, nor is a size that does not fit into the memory and is left out; both are said.
set -euo pipefail
here=$PWD
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. scripts/lib/arguments.sh
. scripts/lib/processes.sh

# 15 pairs where there is a target, fewer where a figure only stands beside others.
pairs=15 others=5 sizes=(1 4 40 256 1000) counts=(1 4 16) shard_counts=(1 2) small=() through=()
targets='' quick='' out=''
read_arguments --targets --quick "--out file" -- "$@"
if [ -n "$quick" ]; then
  pairs=3 others=3 sizes=(4 40) counts=(1 4) shard_counts=(1)
  small=(--steps 1000) through=(--steps 20)
fi
case "$out" in
  '') result=build/bench.json ;;
  /*) result=$out ;;
  *) result=$here/$out ;;
esac
out=$result.jsonl
on_signals end_whole

# measure [OPTION… --] COMMAND…: once (tests/bench/once.py). Status 1 says that a figure missed its target; anything
# else went wrong.
measure() {
  local status=0 options=()
  case "$1" in
    --*) while [ "$1" != -- ]; do options+=("$1") && shift; done && shift ;;
  esac
  run_whole tests/bench/once.py "$out" "$programs" "${options[@]}" -- "$@" || status=$?
  case "$status" in
    0) ;;
    1) echo "bench: a figure missed its target, or was left out: $*" >&2 ;;
    *) fail "$(basename "$1") ended with status $status" 1 ;;
  esac
}
exchange() { measure tests/bench/exchange.py "$@"; }
contains() { [[ " ${*:2} " == *" $1 "* ]]; }
bandwidth() { measure --when "$1" -- "$bin/bench_memory_bandwidth" 64; }

run_whole scripts/build.sh release benchmarks >&2 || exit 1
bin=build/release/bin
for program in bench_apply_bandwidth bench_step_decision; do
  [ -x "$bin/$program" ] ||
    fail "$bin/$program was not built: Google Benchmark is missing (scripts/install_deps.sh installs it)" 1
done
programs=$(cat "$bin"/* tests/bench/*.py | sha256sum | cut -c 1-16)
touch "$out"
kept=$(grep -F "\"programs\": \"$programs\"" "$out" || true) # of other programs: nothing
if [ -n "$kept" ]; then echo "$kept"; fi >"$out"

echo "== what memory can do" >&2
bandwidth before
echo "== a step of push + SGD + pull beside a raw ZeroMQ loop: the figures that have a target" >&2
for mb in 4 40 256; do
  if contains "$mb" "${sizes[@]}"; then exchange --pairs "$pairs" --mb "$mb" --limit 0.85; fi
done
exchange --pairs "$pairs" --mb 40 --workers 4 --limit 0.85
if contains 1000 "${sizes[@]}"; then exchange --pairs "$pairs" --mb 1000 --limit 0.75; fi
echo "== the same in shared memory, beside a raw loop that shares memory" >&2
exchange --pairs "$pairs" --transport shared --mb 40 --limit 0.7
exchange --pairs "$pairs" --transport shared --mb 40 --workers 4 --limit 0.7
echo "== bsp, which cannot overlap, beside them" >&2
for mb in 4 40 256; do
  if contains "$mb" "${sizes[@]}"; then exchange --pairs "$others" --mb "$mb" --policy bsp; fi
done
for transport in tcp shared; do
  exchange --pairs "$others" --transport "$transport" --mb 40 --workers 4 --policy bsp
done
exchange --pairs "$others" --transport shared --mb 40 --policy bsp
echo "== small steps: 100 bytes, one worker and 64" >&2
measure tests/bench/small_messages.py --pairs "$pairs" "${small[@]}"
echo "== a training loop with and without the server" >&2
for policy in ssp bsp; do
  measure tests/bench/through_server.py --model cifar_cnn_small --policy "$policy" --rounds "$pairs" "${through[@]}"
done
echo "== what a step decision costs" >&2
measure --benchmark step_decision --google -- "$bin/bench_step_decision"
echo "== applying gradients beside loops with the same loads and stores" >&2
measure --benchmark apply --google -- "$bin/bench_apply_bandwidth"
echo "== memory" >&2
measure tests/bench/memory.py

if [ -z "$targets" ]; then
  echo "== beside them: a raw worker of one thread, servers that could share memory, shared memory and ipc" >&2
  for mb in 4 40; do exchange --pairs "$others" --mb "$mb" --raw-threads 1; done
  for mb in 4 40; do exchange --pairs "$others" --mb "$mb" --server-memory auto; done
  exchange --pairs "$others" --transport shared --mb 40 --raw-threads 1
  for policy in asp bsp; do exchange --pairs "$others" --transport ipc --mb 40 --policy "$policy"; done
  for mb in "${sizes[@]}"; do
    if [ "$mb" -ne 40 ]; then exchange --pairs "$others" --transport shared --mb "$mb"; fi
  done
  echo "== and by shards, workers and model size" >&2
  for shards in "${shard_counts[@]}"; do
    for workers in "${counts[@]}"; do
      for mb in "${sizes[@]}"; do
        case "$shards/$workers/$mb" in
          1/1/4 | 1/1/40 | 1/1/256 | 1/1/1000 | 1/4/40) ;; # above
          *) exchange --pairs "$others" --mb "$mb" --workers "$workers" --shards "$shards" ;;
        esac
        case "$shards/$workers/$mb" in
          1/1/4 | 1/1/40 | 1/1/256 | 1/4/40) ;;
          *) exchange --pairs "$others" --mb "$mb" --workers "$workers" --shards "$shards" --policy bsp ;;
        esac
      done
    done
  done
  if [ -z "$quick" ]; then
    echo "== two shards and sixteen workers in shared memory, and a larger network through the server" >&2
    exchange --pairs "$others" --transport shared --mb 40 --shards 2
    exchange --pairs "$others" --transport shared --mb 40 --workers 16
    measure tests/bench/through_server.py --model cifar_cnn_small --no-huge-pages --rounds "$others"
    measure tests/bench/through_server.py --model cifar_cnn --rounds "$others"
  fi
  echo "== what a worker waits for when its gradient is whole" >&2
  measure "$bin/bench_decision"
  echo "== what measuring costs" >&2
  measure --benchmark recorder -- "$bin/bench_recorder_cost" 35
fi
echo "== what memory can do, again: has the machine changed meanwhile?" >&2
bandwidth after
run_whole tests/bench/table.py "$out" --json "$result" >&2 || exit 1
rm -f "$out"
