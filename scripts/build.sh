#!/usr/bin/env bash
# Builds one preset into build/<preset>/, programs in build/<preset>/bin/.
#   scripts/build.sh [release|debug|check|asan|tsan] [TARGET…]      release when not said
#     TARGET    `programs` when not said: the three, libpaceline and the examples; `all` has the tests, too, twice as
#               much
# Ctrl-C or SIGTERM once, or SIGHUP: the compilers are stopped. Twice: they are ended at once.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. scripts/lib/processes.sh

preset=${1:-release}
[ $# -gt 0 ] && shift
case "$preset" in
  release | debug | check | asan | tsan) ;;
  *) echo "build.sh: unknown preset '$preset', expected release, debug, check, asan or tsan" >&2; exit 2 ;;
esac
log=$(mktemp /tmp/paceline-configure.XXXXXX)
trap 'rm -f "$log"' EXIT
on_signals end_whole
# shellcheck disable=SC2016 # for the other shell to expand
run_whole sh -c 'exec cmake --preset "$0" >"$1" 2>&1' "$preset" "$log" || {
  cat "$log" >&2
  exit 1
}
[ $# -gt 0 ] || set -- programs
targets=()
for target in "$@"; do targets+=(--target "$target"); done
run_whole cmake --build "build/$preset" "${targets[@]}" || exit
