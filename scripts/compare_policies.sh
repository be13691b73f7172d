#!/usr/bin/env bash
# Runs several configurations one after another on this machine and prints the comparison: barrier, network and total
# time and the nine phases of each, with the change in per cent against the first.
#   scripts/compare_policies.sh CONFIG… [--out DIR] [--force] [--bin DIR] [key.path=value …]
#     --out DIR   holds one run directory per configuration, named after its file (default runs/compare)
#     --force     given twice: run all again. Else a run that succeeded, with all its nodes and the configuration it
#                 would
#                 have now, is kept; another that ended well is refused; one that did not, or that lost
#                 nodes, is replaced
# Missing generated data is made first. key.path=value is given to every run. Ctrl-C, SIGTERM or SIGHUP stops the run in
# order; SIGUSR1 or SIGUSR2 has it save a checkpoint.
# Exit status: 0 all succeeded, 1 a run failed, was stopped or lost nodes (nothing is run after it), 2 wrong usage or
# configuration.
set -uo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
. "$root/scripts/lib/arguments.sh"
. "$root/scripts/lib/processes.sh"
. "$root/scripts/lib/runs.sh"

out="$root/runs/compare" force='' bin="$root/build/release/bin"
read_arguments "--out folder" "--bin folder" --force key=value words -- "$@"
configs=("${words[@]}")
[ ${#configs[@]} -gt 0 ] || fail "no configuration given (see --help)"
same=$(for config in "${configs[@]}"; do basename "$config" .yaml; done | sort | uniq -d | head -n 1)
[ -z "$same" ] || fail "two configurations are named $same; a run directory is named after its configuration's file"

on_signals pass_on pass_on_save
if [ ! -x "$bin/paceline" ]; then
  [ "$bin" = "$root/build/release/bin" ] || fail "$bin/paceline is not there"
  run_child "$root/scripts/build.sh" release || fail "${stopped:+stopped: }the build failed" 1
fi

# All are checked before the first is run: an hour later is no time for a typing error.
for config in "${configs[@]}"; do
  "$bin/paceline" check-config "$config" "${given[@]}" >/dev/null || exit 2
  run_child "$root/scripts/make_data.sh" "$config" --bin "$bin" "${given[@]}"
  case "$?" in
    0) ;;
    2) fail "no data for $config" ;;
    *) fail "no data for $config" 1 ;;
  esac
done

runs=() n=0
for config in "${configs[@]}"; do
  n=$((n + 1))
  run="$out/$(basename "$config" .yaml)"
  runs+=("$run")
  line="compare_policies: [$n/${#configs[@]}] $config"
  replacing=()
  if [ "${times[--force]:-0}" -ge 2 ]; then
    replacing=(--force --force)
  else
    if can_keep "$bin/paceline" "$run" "$config" "${given[@]}"; then
      echo "$line: keeping the finished run in $run (--force --force runs it again)"
      continue
    elif [ -n "$why_not" ]; then
      ! ended_well "$run" || [ -n "$(lost_nodes "$run")" ] ||
        fail "$run holds a run that ended well, but $why_not; give another --out, remove it, or run all again with --force twice"
      echo "$line: the run in $run is replaced: $why_not"
      to_replace "$run"
    fi
  fi
  echo "$line -> $run"
  run_child "$root/scripts/run_local.sh" "$config" --out "$run" "${replacing[@]}" --bin "$bin" "${given[@]}"
  status=$?
  [ -z "$stopped" ] || fail "stopped; the same command goes on with $config" 1
  [ "$status" -eq 0 ] || fail "$config failed, see $run; nothing was compared" 1
  lost=$(lost_nodes "$run")
  [ -z "$lost" ] || fail "$config lost $lost, see $run; nothing was compared" 1
done
"$bin/paceline" report "${runs[@]}"
