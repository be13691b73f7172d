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
  # The threads of the daemons are those of the process tests that run servers and nodes in one process.
  case "$preset" in
    debug) left_out=() ;;
    asan) left_out=(-LE plain) ;;
    tsan) left_out=(-LE daemons) ;;
  esac
  ctest --preset "$preset" -j "$(nproc)" --no-tests=error "${left_out[@]}"
done
