#!/usr/bin/env bash
# Installs what is missing, builds, and runs the whole suite: everything in the debug build, then the core, wire,
# server, worker and process tests again under the address + undefined and the thread sanitizers.
#   scripts/test.sh [debug|asan|tsan]…      all three when not said
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

presets=("$@")
[ ${#presets[@]} -gt 0 ] || presets=(debug asan tsan)
scripts/install_deps.sh
for preset in "${presets[@]}"; do
  started=$SECONDS
  echo "== build $preset"
  if [ "$preset" = debug ]; then scripts/build.sh debug; else scripts/build.sh "$preset" paceline_sanitizer_tests; fi
  echo "== test $preset (built in $((SECONDS - started)) s)"
  if [ "$preset" = debug ]; then
    ctest --preset "$preset" -j "$(nproc)" --no-tests=error
  else
    ctest --preset "$preset" -j "$(nproc)" -L sanitizer --no-tests=error
  fi
done
