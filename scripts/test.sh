#!/usr/bin/env bash
# Installs what is missing, builds, and runs the whole suite three times: the debug build, address + undefined
# sanitizer, thread sanitizer.
#   scripts/test.sh [debug|asan|tsan]…      all three when not said
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

presets=("$@")
[ ${#presets[@]} -gt 0 ] || presets=(debug asan tsan)
scripts/install_deps.sh
for preset in "${presets[@]}"; do
  started=$SECONDS
  echo "== build $preset"
  scripts/build.sh "$preset"
  echo "== test $preset (built in $((SECONDS - started)) s)"
  # Labelled plain: the scripts and bad input, in which a sanitizer could find nothing that it does not find elsewhere.
  only=()
  [ "$preset" = debug ] || only=(-LE plain)
  ctest --preset "$preset" -j "$(nproc)" --no-tests=error "${only[@]}"
done
