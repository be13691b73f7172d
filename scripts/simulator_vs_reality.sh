#!/usr/bin/env bash
# Holds the simulator to real runs (docs/EXPERIMENTS.md): calibrates it on one real SSP run, then, without fitting anything
# again, predicts other thresholds, policies and speeds, runs those for real as well, and prints wall time, barrier time and
# pulls of each pair with the error; and of the cell in which DTSSP follows what is learned its threshold, window by window.
# Resumable: a real run that succeeded with the configuration it would have now is kept.
#   scripts/simulator_vs_reality.sh [--quick] [--out DIR] [--bin DIR] [CELL …] [key.path=value …]
#     --quick     four cells of half the length: about three minutes instead of a good quarter of an hour
#     --out DIR   holds the real runs, the simulated ones (CELL-simulated; CELL-trained in training mode) and pairs.json
#                 (default runs/reality)
#     CELL        ssp1, ssp10, bsp, dtssp, asp, ssp-even, ssp-steep, bsp-steep, dtssp-steep, dtssp-learns (with a
#                 calibrating run of its own, about two minutes in all); all when none is named
# key.path=value is given to every run. Missing generated data is made first. Ctrl-C or SIGTERM stops the run in order.
# Exit status: 0 every pair was compared (a figure beyond its target is no failure here), 1 a run failed, was stopped or lost
# nodes, 2 wrong usage or configuration.
set -uo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
. "$root/scripts/lib/arguments.sh"
. "$root/scripts/lib/processes.sh"
. "$root/scripts/lib/runs.sh"
. "$root/scripts/lib/yaml.sh"

out="$root/runs/reality" bin="$root/build/release/bin" quick=''
read_arguments "--out folder" "--bin folder" --quick key=value words -- "$@"
cells=("${words[@]}")

# Of which configuration a cell is, and which run its costs are taken from.
config_of() {
  case "$1" in
    *-learns) echo "$root/configs/reality_learning.yaml" ;;
    *) echo "$root/configs/reality.yaml" ;;
  esac
}
calibration_of() {
  case "$1" in
    *-learns) echo calibration-learns ;;
    *) echo calibration ;;
  esac
}

# What a cell changes in its configuration. A calibrating run has a seed of its own, so that nothing of its chances is in
# what is predicted. A run of reality.yaml learns next to nothing, and LPR is noise: dtssp gets bounds at which every window
# raises the threshold, 3 to 10. dtssp-learns has the paper's bounds, 5 and -5 %, and an upper end that hides no decision.
overrides_of() {
  local steep="emulate.slowdown=[1,1.25,1.5,2]" none="sync.threshold=null"
  local dtssp="sync.policy=dtssp sync.lpr.increase_above=-95 sync.lpr.decrease_below=-99"
  case "$1" in
    calibration | calibration-learns) echo "run.seed=1" ;;
    dtssp-learns) echo "run.seed=2 sync.policy=dtssp sync.threshold_min=3 sync.threshold_max=15" ;;
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
# arguments_of CELL: the array `arguments`, all that its configuration is given. Half as long, it would learn half as much.
arguments_of() {
  read -ra arguments <<<"$(overrides_of "$1")"
  [ -z "$quick" ] || [[ "$1" == *-learns ]] || arguments+=("train.total_iterations=192")
  arguments+=("${given[@]}")
}
[ -z "$quick" ] || [ ${#cells[@]} -gt 0 ] || cells=(ssp1 bsp dtssp ssp-steep)
[ ${#cells[@]} -gt 0 ] || cells=(ssp1 ssp10 bsp dtssp asp ssp-even ssp-steep bsp-steep dtssp-steep dtssp-learns)
mapfile -t calibrations < <(for cell in "${cells[@]}"; do calibration_of "$cell"; done | sort -u)
for program in paceline paceline-server paceline-worker; do
  [ -x "$bin/$program" ] || fail "$bin/$program is not there; build it with scripts/build.sh"
done

trap pass_on INT TERM
# All are checked before the first is run: a quarter of an hour later is no time for a typing error.
for cell in "${calibrations[@]}" "${cells[@]}"; do
  arguments_of "$cell"
  "$bin/paceline" check-config "$(config_of "$cell")" "${arguments[@]}" >/dev/null || exit 2
done
for cell in "${calibrations[@]}"; do
  arguments_of "$cell"
  data=$("$bin/paceline" check-config "$(config_of "$cell")" "${arguments[@]}" --get data.path)
  if [ "$cell" = calibration-learns ] && [ ! -e "$data/test_batch.bin" ]; then
    run_child "$bin/paceline" data synthesize --out "$data" --train 300 --test 100 || fail "no data" 1
  fi
  run_child "$root/scripts/make_data.sh" "$(config_of "$cell")" --bin "$bin" "${arguments[@]}" || fail "no data" 1
done
mkdir -p "$out" || fail "cannot create $out" 1

# real CELL: runs it, unless it was.
real() {
  local cell=$1 run="$out/$1" config status lost
  config=$(config_of "$cell")
  arguments_of "$cell"
  if can_keep "$bin/paceline" "$run" "$config" "${arguments[@]}"; then
    echo "simulator_vs_reality: $cell: keeping the finished run in $run" >&2
    return
  fi
  [ -z "$why_not" ] || echo "simulator_vs_reality: $cell is run again: $why_not" >&2
  echo "simulator_vs_reality: $cell -> $run" >&2
  run_child "$root/scripts/run_local.sh" "$config" --bin "$bin" --out "$run" --force "${arguments[@]}" >"$run.log" 2>&1
  status=$?
  [ -z "$stopped" ] || fail "stopped in $cell; the same command goes on with it" 1
  [ "$status" -eq 0 ] || fail "$cell failed, see $run.log" 1
  lost=$(lost_nodes "$run")
  [ -z "$lost" ] || fail "$cell lost $lost, see $run" 1
}

# simulated CELL: the configuration of its real run in virtual time, costs from the calibrating run, and the accuracy, which
# dtssp follows, from that run's curve. trained CELL: the same in training mode, in which accuracy is that of real gradients.
simulated() {
  local calibration
  calibration=$(calibration_of "$1")
  in_virtual_time "$1" "$1-simulated" "simulate.metric.curve=$(yaml_string "$out/$calibration-metric.csv")" \
    simulate.metric.noise=none
}
trained() { in_virtual_time "$1" "$1-trained" simulate.mode=training; }
in_virtual_time() { # CELL RUN [key.path=value …]
  run_child "$bin/paceline" simulate "$out/$1/config.yaml" --out "$out/$2" --force --trace "$out/$(calibration_of "$1")" \
    "${@:3}" >"$out/$2.log" 2>&1 || fail "$1 could not be simulated: $(tail -n 1 "$out/$2.log")" 1
}

for cell in "${calibrations[@]}"; do
  real "$cell"
  python3 "$root/scripts/lib/reality.py" metric "$out/$cell" >"$out/$cell-metric.csv" ||
    fail "no curve of accuracy in $out/$cell" 1
  simulated "$cell"
done
for cell in "${cells[@]}"; do
  real "$cell"
  simulated "$cell"
  [ "$cell" != dtssp-learns ] || trained "$cell"
done
python3 "$root/scripts/lib/reality.py" table "$out" "${calibrations[@]}" -- "${cells[@]}" ||
  fail "the runs could not be compared" 1
