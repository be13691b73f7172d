#!/usr/bin/env bash
# Builds one preset into build/<preset>/, programs in build/<preset>/bin/.
#   scripts/build.sh [release|debug|asan|tsan] [TARGET…]      release when not said; everything when no target is named
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

preset=${1:-release}
[ $# -gt 0 ] && shift
case "$preset" in
  release | debug | asan | tsan) ;;
  *) echo "build.sh: unknown preset '$preset', expected release, debug, asan or tsan" >&2; exit 2 ;;
esac
cmake --preset "$preset" >"/tmp/paceline-configure-$$.log" 2>&1 || {
  cat "/tmp/paceline-configure-$$.log" >&2
  rm -f "/tmp/paceline-configure-$$.log"
  exit 1
}
rm -f "/tmp/paceline-configure-$$.log"
targets=()
for target in "$@"; do targets+=(--target "$target"); done
cmake --build "build/$preset" "${targets[@]}"
