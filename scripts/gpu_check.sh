#!/usr/bin/env bash
# What has to be looked at on a machine with a GPU: builds with CUDA, holds every layer's and both networks' gradients to the
# reference back end on inputs drawn afresh, once more under compute-sanitizer where that is there, and times a step.
# Prints one JSON line a step and, at the end, a table. docs/GPU.md says what it does not look at yet.
#   scripts/gpu_check.sh [--no-bench] [--steps N]
#     --no-bench   only the gradients
#     --steps N    steps timed of each (default 50; 5 on the CPU, which the GPU is set beside)
# Ctrl-C or SIGTERM once: what is under way is stopped. Twice: it is ended at once.
# Exit status: 0 all is well, 1 something is not, 2 wrong usage, 77 there is no GPU that can be used, and why is said.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. scripts/lib/arguments.sh
. scripts/lib/processes.sh

no_bench='' steps=50
read_arguments --no-bench "--steps number" -- "$@"
trap end_whole INT TERM

run_whole cmake --preset release -DPACELINE_CUDA=ON >&2 || exit 1
run_whole cmake --build build/release --target gpu_test bench_model_step >&2 || exit 1
gpu_test=build/release/tests/gpu_test

# The seed of a failure is in what Catch2 prints.
echo "== gradients against the reference" >&2
status=0
run_whole "$gpu_test" --rng-seed time || status=$?
[ "$status" != 77 ] || exit 77
[ "$status" = 0 ] || fail "gpu_test ended with status $status" 1

if sanitizer=$(command -v compute-sanitizer); then
  for tool in memcheck racecheck initcheck; do
    echo "== compute-sanitizer $tool" >&2
    run_whole "$sanitizer" --tool "$tool" --error-exitcode 9 "$gpu_test" >&2 || fail "compute-sanitizer: $tool" 1
  done
else
  echo "== no compute-sanitizer: memory on the GPU is not watched" >&2
fi
[ -z "$no_bench" ] || exit 0

# time_step MODEL BATCH WHERE STEPS: its line, which is also kept for the table.
lines=()
time_step() {
  local line
  line=$(build/release/bin/bench_model_step "$1" "$2" "$4" 0 "$3") || fail "bench_model_step $1 $2 $3" 1
  echo "$line"
  lines+=("$line")
}
echo "== one step, parameters to the GPU and gradients back included" >&2
for model in cifar_cnn_small cifar_cnn; do
  for batch in 128 1024; do
    time_step "$model" "$batch" cpu 5
    for where in fp32 tf32 bf16; do time_step "$model" "$batch" "$where" "$steps"; done
  done
done
printf '%s\n' "${lines[@]}" | python3 -c '
import json, sys
print("%-16s %6s %6s %10s %12s" % ("model", "batch", "where", "median ms", "samples/s"))
for line in sys.stdin:
    step = json.loads(line)
    print("%-16s %6d %6s %10.3f %12.0f" % (step["model"], step["batch"], step["where"], step["median_ms"],
                                           1000 * step["batch"] / step["median_ms"]))
'
