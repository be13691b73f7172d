#!/usr/bin/env bash
# Runs several configurations one after another on this machine and prints the comparison: barrier, network and total
# time of each, with the change in per cent against the first.
#   scripts/compare_policies.sh CONFIG… [--out DIR] [--force] [--bin DIR] [key.path=value …]
#     --out DIR   holds one run directory per configuration, named after its file (default runs/compare)
#     --force     run again what is already there; without it finished runs are kept and only printed
# Missing generated data is made first. key.path=value is given to every run.
set -uo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
fail() { echo "compare_policies: $1" >&2; exit "${2:-2}"; }

out="$root/runs/compare" force='' bin="$root/build/release/bin"
configs=() overrides=()
while [ $# -gt 0 ]; do
  case "$1" in
    -h | --help) sed -n '2,7s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; exit 0 ;;
    --out) [ $# -ge 2 ] || fail "--out needs a folder"; out=$2; shift ;;
    --bin) [ $# -ge 2 ] || fail "--bin needs a folder"; bin=$2; shift ;;
    --force) force=--force ;;
    -*) fail "unknown option '$1' (see --help)" ;;
    *=*) overrides+=("$1") ;;
    *) configs+=("$1") ;;
  esac
  shift
done
[ ${#configs[@]} -gt 0 ] || fail "no configuration given (see --help)"
[ -x "$bin/paceline" ] || "$root/scripts/build.sh" release || fail "the build failed" 1

# All are checked before the first is run: an hour later is no time for a typing error.
for config in "${configs[@]}"; do
  "$bin/paceline" check-config "$config" "${overrides[@]}" >/dev/null || exit 2
  "$root/scripts/make_data.sh" "$config" --bin "$bin" "${overrides[@]}" || exit 1
done

runs=() n=0
for config in "${configs[@]}"; do
  n=$((n + 1))
  run="$out/$(basename "$config" .yaml)"
  runs+=("$run")
  if [ -z "$force" ] && [ -e "$run/summary.json" ]; then
    echo "compare_policies: [$n/${#configs[@]}] $config: keeping the finished run in $run (--force runs it again)"
    continue
  fi
  echo "compare_policies: [$n/${#configs[@]}] $config -> $run"
  "$root/scripts/run_local.sh" "$config" --out "$run" $force --bin "$bin" "${overrides[@]}" || exit $?
done
"$bin/paceline" report "${runs[@]}"
