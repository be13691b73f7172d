#!/usr/bin/env bash
# Installs what is missing, builds, and runs the tests: all of them in the debug build, then under the address + undefined
# sanitizer and under the thread sanitizer what these can add to (docs/TESTING.md says what is left out, and why).
#   scripts/test.sh [debug|asan|tsan]…      all three when not said
# Ctrl-C or SIGTERM once: what is under way is stopped. Twice: it is ended at once.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. scripts/lib/processes.sh
trap end_whole INT TERM

presets=("$@")
[ ${#presets[@]} -gt 0 ] || presets=(debug asan tsan)
run_whole scripts/install_deps.sh --browser --plots || exit
for preset in "${presets[@]}"; do
  started=$SECONDS
  echo "== build $preset"
  run_whole scripts/build.sh "$preset" || exit
  echo "== test $preset (built in $((SECONDS - started)) s)"
  # The labels are given in tests/subjects/process.cmake.
  case "$preset" in
    debug) left_out=() ;;
    asan) left_out=(-LE plain) ;;
    tsan) left_out=(-LE 'plain|not_tsan') ;;
  esac
  # Whatever started this may ignore SIGINT, as a process in the background does; tests of that signal cannot.
  run_whole env --default-signal=INT,QUIT ctest --preset "$preset" -j "$(nproc)" --no-tests=error \
    "${left_out[@]}" || exit
done
