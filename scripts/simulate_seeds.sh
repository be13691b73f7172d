#!/usr/bin/env bash
# Simulates many random schedules: the core under faults (sync_sim_test), with two servers of each shard
# (replica_sim_test), saved and resumed (sync_resume_test), and who of a shard's replicas serves (leader_lease_test),
# each over the same range of seeds and, before it, those that have failed once (tests/sim/kept_seeds.h). Prints how
# long each took and the seeds that fail, with the command that runs one of them alone.
#   scripts/simulate_seeds.sh [COUNT] [FIRST]      COUNT seeds (10000) from FIRST (1) on; with FIRST without those kept
# Builds these programs first (debug). Ctrl-C, SIGTERM or SIGHUP stops it. Exit status: 0 no seed fails, 1 one does, or
# it was stopped or could not be built, 2 wrong usage.
set -uo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
. "$root/scripts/lib/arguments.sh"
. "$root/scripts/lib/processes.sh"

read_arguments words -- "$@"
[ ${#words[@]} -le 2 ] || fail "unknown argument '${words[2]}' (see --help)"
for word in "${words[@]}"; do
  [[ "$word" =~ ^[1-9][0-9]{0,17}$ ]] || fail "needs a number from 1 on, got '$word' (see --help)"
done
count=${words[0]:-10000} programs=(sync_sim_test replica_sim_test sync_resume_test leader_lease_test)
chosen=(--schedules "$count")
[ ${#words[@]} -lt 2 ] || chosen+=(--first-seed "${words[1]}")

said=$(mktemp /tmp/paceline-seeds.XXXXXX)
trap 'rm -f "$said"' EXIT
on_signals pass_on pass_on_save
cd "$root" || exit 1
run_child scripts/build.sh debug "${programs[@]}" >"$said" 2>&1 || { cat "$said" >&2; fail "not built" 1; }
[ -z "$stopped" ] || fail "stopped" 1

failed=''
for program in "${programs[@]}"; do
  started=$(date +%s%N)
  run_child "build/debug/tests/$program" "${chosen[@]}" >"$said" 2>&1
  status=$?
  [ -z "$stopped" ] || fail "stopped in $program" 1
  took=$((($(date +%s%N) - started) / 100000000))
  printf '%s: %s seeds from %s on, %d.%d s: ' "$program" "$count" "${words[1]:-1}" $((took / 10)) $((took % 10))
  if [ "$status" -eq 0 ]; then
    echo "no seed fails"
    continue
  fi
  failed=1
  mapfile -t seeds < <(grep -oE 'seed [0-9]+' "$said" | cut -d ' ' -f 2 | sort -nu)
  echo "failed, seeds ${seeds[*]:-unknown}"
  cat "$said"
  [ ${#seeds[@]} -eq 0 ] || echo "alone: build/debug/tests/$program --first-seed ${seeds[0]} --schedules 1"
done
[ -z "$failed" ] || exit 1
