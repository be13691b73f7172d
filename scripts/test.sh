#!/usr/bin/env bash
# Installs what is missing, builds, and runs the tests: under the address + undefined sanitizer and under the thread
# sanitizer what these can add to, and without a sanitizer what is only to be had so
# (docs/TESTING.md says what is run where, and why).
#   scripts/test.sh [plain|asan|tsan|debug]…      plain, asan and tsan when not said; debug: all tests, no sanitizer
# Ctrl-C or SIGTERM once: what is under way is stopped. Twice: it is ended at once.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. scripts/lib/processes.sh
trap end_whole INT TERM

parts=("$@")
[ ${#parts[@]} -gt 0 ] || parts=(plain asan tsan)
for part in "${parts[@]}"; do
  case "$part" in
    plain | asan | tsan | debug) ;;
    *) echo "test.sh: unknown part '$part', expected plain, asan, tsan or debug" >&2; exit 2 ;;
  esac
done
run_whole scripts/install_deps.sh --browser --etcd --plots || exit
for part in "${parts[@]}"; do
  # The labels are given in tests/CMakeLists.txt and tests/subjects/process.cmake.
  preset=$part targets=() chosen=() jobs=$(nproc)
  case "$part" in
    plain) targets=(plain_tests) chosen=(-L plain) ;;
    asan) chosen=(-LE plain) ;;
    tsan) chosen=(-LE 'plain|not_tsan') ;;
  esac
  # Many of these wait, for leases and for ends, and none of them measures anything; but what has more threads than
  # cores for long is taken for lost.
  case "$part" in
    asan) jobs=$((jobs + 2)) ;;
    tsan) jobs=$((jobs + 1)) ;;
  esac
  started=$SECONDS
  echo "== build $part"
  run_whole scripts/build.sh "$preset" "${targets[@]}" || exit
  echo "== test $part (built in $((SECONDS - started)) s)"
  # Whatever started this may ignore SIGINT, as a process in the background does; tests of that signal cannot.
  run_whole env --default-signal=INT,QUIT ctest --preset "$preset" -j "$jobs" --no-tests=error \
    "${chosen[@]}" || exit
done
