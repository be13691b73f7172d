#!/usr/bin/env bash
# Holds the simulator to real runs (docs/EXPERIMENTS.md): calibrates it on one real SSP run, then, without fitting anything
# again, predicts other thresholds, policies and speeds, runs those for real as well, and prints wall time, barrier time and
# pulls of each pair with the error. Resumable: a real run that succeeded with the configuration it would have now is kept.
#   scripts/simulator_vs_reality.sh [--quick] [--out DIR] [--bin DIR] [CELL …] [key.path=value …]
#     --quick     four cells of half the length: about three minutes instead of a quarter of an hour
#     --out DIR   holds the real runs, the simulated ones (CELL-simulated) and pairs.json (default runs/reality)
#     CELL        ssp1, ssp10, bsp, dtssp, asp, ssp-even, ssp-steep, bsp-steep, dtssp-steep; all when none is named
# key.path=value is given to every run. Missing generated data is made first. Ctrl-C or SIGTERM stops the run in order.
# Exit status: 0 every pair was compared (a figure beyond its target is no failure here), 1 a run failed, was stopped or lost
# nodes, 2 wrong usage or configuration.
set -uo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
. "$root/scripts/lib/arguments.sh"
. "$root/scripts/lib/processes.sh"
. "$root/scripts/lib/runs.sh"
. "$root/scripts/lib/yaml.sh"

out="$root/runs/reality" bin="$root/build/release/bin" config="$root/configs/reality.yaml" quick=''
read_arguments "--out folder" "--bin folder" --quick key=value words -- "$@"
cells=("${words[@]}")

# What a cell changes in configs/reality.yaml. The calibrating run has a seed of its own, so that nothing of its chances is in
# what is predicted. A run this short learns next to nothing, and LPR is noise: dtssp gets bounds at which every window
# raises the threshold, 3 to 10.
overrides_of() {
  local steep="emulate.slowdown=[1,1.25,1.5,2]" none="sync.threshold=null"
  local dtssp="sync.policy=dtssp sync.lpr.increase_above=-95 sync.lpr.decrease_below=-99"
  case "$1" in
    calibration) echo "run.seed=1" ;;
    ssp1) echo "run.seed=2 sync.threshold=1" ;;
    ssp10) echo "run.seed=2 sync.threshold=10" ;;
    bsp) echo "run.seed=2 sync.policy=bsp $none" ;;
    dtssp) echo "run.seed=2 $dtssp" ;;
    asp) echo "run.seed=2 sync.policy=asp $none" ;;
    ssp-even) echo "run.seed=2 emulate.slowdown=[1,1,1,1]" ;;
    ssp-steep) echo "run.seed=2 $steep" ;;
    bsp-steep) echo "run.seed=2 sync.policy=bsp $none $steep" ;;
    dtssp-steep) echo "run.seed=2 $dtssp $steep" ;;
    *) return 1 ;;
  esac
}
for cell in "${cells[@]}"; do overrides_of "$cell" >/dev/null || fail "no cell '$cell' (see --help)"; done
if [ -n "$quick" ]; then
  given=("train.total_iterations=192" "${given[@]}")
  [ ${#cells[@]} -gt 0 ] || cells=(ssp1 bsp dtssp ssp-steep)
fi
[ ${#cells[@]} -gt 0 ] || cells=(ssp1 ssp10 bsp dtssp asp ssp-even ssp-steep bsp-steep dtssp-steep)
for program in paceline paceline-server paceline-worker; do
  [ -x "$bin/$program" ] || fail "$bin/$program is not there; build it with scripts/build.sh"
done

trap pass_on INT TERM
# All are checked before the first is run: a quarter of an hour later is no time for a typing error.
for cell in calibration "${cells[@]}"; do
  read -ra overrides <<<"$(overrides_of "$cell")"
  "$bin/paceline" check-config "$config" "${overrides[@]}" "${given[@]}" >/dev/null || exit 2
done
run_child "$root/scripts/make_data.sh" "$config" --bin "$bin" "${given[@]}" || fail "no data" 1
mkdir -p "$out" || fail "cannot create $out" 1

# real CELL: runs it, unless it was.
real() {
  local cell=$1 run="$out/$1" overrides status lost
  read -ra overrides <<<"$(overrides_of "$cell")"
  overrides+=("${given[@]}")
  if can_keep "$bin/paceline" "$run" "$config" "${overrides[@]}"; then
    echo "simulator_vs_reality: $cell: keeping the finished run in $run" >&2
    return
  fi
  [ -z "$why_not" ] || echo "simulator_vs_reality: $cell is run again: $why_not" >&2
  echo "simulator_vs_reality: $cell -> $run" >&2
  run_child "$root/scripts/run_local.sh" "$config" --bin "$bin" --out "$run" --force "${overrides[@]}" >"$run.log" 2>&1
  status=$?
  [ -z "$stopped" ] || fail "stopped in $cell; the same command goes on with it" 1
  [ "$status" -eq 0 ] || fail "$cell failed, see $run.log" 1
  lost=$(lost_nodes "$run")
  [ -z "$lost" ] || fail "$cell lost $lost, see $run" 1
}

# simulated CELL: the configuration of its real run in virtual time, costs from the calibrating run, and the accuracy, which
# dtssp follows, from that run's curve.
simulated() {
  run_child "$bin/paceline" simulate "$out/$1/config.yaml" --out "$out/$1-simulated" --force --trace "$out/calibration" \
    "simulate.metric.curve=$(yaml_string "$out/calibration-metric.csv")" simulate.metric.noise=none \
    >"$out/$1-simulated.log" 2>&1 || fail "$1 could not be simulated: $(tail -n 1 "$out/$1-simulated.log")" 1
}

real calibration
python3 "$root/scripts/lib/reality.py" metric "$out/calibration" >"$out/calibration-metric.csv" ||
  fail "no curve of accuracy in $out/calibration" 1
simulated calibration
for cell in "${cells[@]}"; do
  real "$cell"
  simulated "$cell"
done
python3 "$root/scripts/lib/reality.py" table "$out" "${cells[@]}" || fail "the runs could not be compared" 1
