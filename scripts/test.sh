#!/usr/bin/env bash
# Installs what is missing, builds, and runs the tests of a tier (docs/TESTING.md says what belongs to which).
#   scripts/test.sh [check | sanitize | all]      check when not said
#     check       one build without a sanitizer; every promise at least once. At most 20 minutes on two cores.
#     sanitize    the address + undefined sanitizer, then the thread sanitizer, over what they can add to. At most 35.
#     all         everything: longer random runs, more faults, the browser, etcd, Slurm, Spark, plots, PyTorch, JAX,
#                 mutants, then both sanitizers
# At its end it names the slowest ten builds and tests and the time that all took. Where a test fails the exit status is
# ctest's. Ctrl-C or SIGTERM once, or SIGHUP: what is under way is stopped. Twice: it is ended at once.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. scripts/lib/processes.sh
. scripts/lib/slowest.sh
on_signals end_whole

tier=${1:-check}
options=() chosen=(-L check) targets=(check_tests)
case "$#,$tier" in
  0,* | 1,check) presets=(check) budget=20 ;;
  1,sanitize) presets=(asan tsan) budget=35 ;;
  1,all) presets=(check asan tsan) budget='' options=(--browser --etcd --plots --slurm --spark) chosen=() targets=(all) ;;
  *) echo "test.sh: got '$*', expected check, sanitize or all" >&2; exit 2 ;;
esac
if [ "$tier" = all ] && [ -z "${PACELINE_PYTHON:-}" ]; then
  options+=(--python)
  export PACELINE_PYTHON=$PWD/build/python/bin/python
fi

began=$SECONDS status=0
run_whole scripts/install_deps.sh "${options[@]}" || exit
installed=$((SECONDS - began))
results=()
for preset in "${presets[@]}"; do
  # Many tests wait, for leases and for ends, and none measures anything; but what has more threads than cores for long
  # is taken for lost.
  jobs=$(($(nproc) + 1))
  [ "$preset" != asan ] || jobs=$((jobs + 1))
  [ "$preset" != check ] || [ "$tier" != all ] || targets=(all benchmarks)
  started=$SECONDS since=$(date +%s)
  echo "== build $preset"
  run_whole scripts/build.sh "$preset" "${targets[@]}" || exit
  [ "$tier" != all ] || targets=(all)
  built=$((SECONDS - started))
  echo "== test $preset (built in $built s)"
  junit=build/$preset/tests.xml
  # Whatever started this may ignore SIGINT, as a process in the background does; tests of that signal cannot.
  run_whole env --default-signal=INT,QUIT ctest --preset "$preset" -j "$jobs" --no-tests=error --output-junit "$PWD/$junit" \
    "${chosen[@]}" || status=$?
  tested=$((SECONDS - started - built))
  results+=("$preset: built in $built s, tested in $tested s")
  echo "== slowest builds of $preset, seconds"
  slowest_builds "build/$preset/.ninja_log" "$since"
  echo "== slowest tests of $preset, seconds"
  slowest_tests "$junit"
done
total=$((SECONDS - began))
echo "== $tier: installed in $installed s; $(printf '%s; ' "${results[@]}")$((total / 60)) min $((total % 60)) s in all${budget:+, of $budget min}"
exit "$status"
