#!/usr/bin/env bash
# Holds the simulator to real runs (docs/EXPERIMENTS.md): calibrates it on a real SSP run, then, without fitting
# anything again, predicts other thresholds, policies and speeds, runs those for real as well, and prints wall time,
# barrier time and pulls of each pair with the error; and of the cell in which DTSSP follows what is learned its
# threshold, window by window. Resumable: a real run that succeeded with the configuration it would have now is kept.
#   scripts/simulator_vs_reality.sh [--quick] [--calibrations N] [--out DIR] [--bin DIR] [CELL …] [key.path=value …]
#     --quick     four cells of half the length: about three minutes instead of a good twenty; of cells that are named,
#                 those
#                 that learn and those as it is keep theirs
#     --calibrations N   how many calibrating runs, each with a seed of its own, every cell is predicted from (1 to 99,
#                        default 1)
#     --out DIR   holds the real runs, the simulated ones (CELL-simulated; CELL-trained in training mode; after the
#                 first
#                 calibrating run CELL-simulated-2 and so on) and pairs.json (default runs/reality)
#     CELL        ssp1, ssp10, bsp, dtssp, asp, ssp-even, ssp-steep, bsp-steep, dtssp-steep; dtssp-learns (with
#                 calibrating
#                 runs of its own, about two minutes in all); and, of two workers whose speeds nothing emulates, so that
#                 the
#                 calibrating run's trace says how long they compute, ssp1-as-it-is, bsp-as-it-is, asp-as-it-is (about
#                 half a minute each); all when none is named
# key.path=value is given to every run. Missing generated data is made first. Ctrl-C, SIGTERM or SIGHUP stops the run in
# order. Exit status: 0 every pair was compared (a figure beyond its target is no failure here), 1 a run failed, was
# stopped or lost nodes, 2 wrong usage or configuration.
set -uo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
. "$root/scripts/lib/arguments.sh"
. "$root/scripts/lib/processes.sh"
. "$root/scripts/lib/runs.sh"
. "$root/scripts/lib/yaml.sh"

out="$root/runs/reality" bin="$root/build/release/bin" quick='' calibrations=1
read_arguments "--out folder" "--bin folder" --quick "--calibrations number" key=value words -- "$@"
cells=("${words[@]}")
[[ "$calibrations" =~ ^[1-9][0-9]?$ ]] || fail "--calibrations needs 1 to 99"

# Of which configuration a cell is, a calibrating run too, and what the runs that its costs are taken from begin with.
config_of() {
  case "$1" in
    *-learns | *-learns-*) echo "$root/configs/reality_learning.yaml" ;;
    *-as-it-is | *-as-it-is-*) echo "$root/configs/reality_as_it_is.yaml" ;;
    *) echo "$root/configs/reality.yaml" ;;
  esac
}
calibration_of() {
  case "$1" in
    *-learns) echo calibration-learns ;;
    *-as-it-is) echo calibration-as-it-is ;;
    *) echo calibration ;;
  esac
}
# numbered NAME N: the first has no number.
numbered() { echo "$1$([ "$2" -eq 1 ] || echo "-$2")"; }

# What a cell changes in its configuration. A calibrating run has a seed of its own, so that nothing of its chances is
# in what is predicted. A run of reality.yaml learns next to nothing, and LPR is noise: dtssp gets bounds at which every
# window raises the threshold, 3 to 10. dtssp-learns has the paper's bounds, 5 and -5 %, and an upper end that hides no
# decision.
overrides_of() {
  local steep="emulate.slowdown=[1,1.25,1.5,2]" none="sync.threshold=null"
  local dtssp="sync.policy=dtssp sync.lpr.increase_above=-95 sync.lpr.decrease_below=-99"
  case "$1" in
    calibration | calibration-learns | calibration-as-it-is) echo "run.seed=1" ;;
    calibration-[2-9] | calibration-[1-9][0-9] | calibration-learns-[2-9] | calibration-learns-[1-9][0-9] | \
      calibration-as-it-is-[2-9] | calibration-as-it-is-[1-9][0-9]) echo "run.seed=$((100 + ${1##*-}))" ;;
    ssp1-as-it-is) echo "run.seed=2 sync.threshold=1" ;;
    bsp-as-it-is) echo "run.seed=2 sync.policy=bsp $none" ;;
    asp-as-it-is) echo "run.seed=2 sync.policy=asp $none sync.pull_order=before_push" ;; # as is simulated
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
for cell in "${cells[@]}"; do
  if [[ "$cell" = calibration* ]] || ! overrides_of "$cell" >/dev/null; then fail "no cell '$cell' (see --help)"; fi
done
# arguments_of CELL: the array `arguments`, all that its configuration is given. --quick halves what reality.yaml has:
# half as long, the one that learns would learn half as much, and those as it is are short.
arguments_of() {
  read -ra arguments <<<"$(overrides_of "$1")"
  [ -z "$quick" ] || [[ "$(config_of "$1")" != */reality.yaml ]] || arguments+=("train.total_iterations=192")
  arguments+=("${given[@]}")
}
[ -z "$quick" ] || [ ${#cells[@]} -gt 0 ] || cells=(ssp1 bsp dtssp ssp-steep)
[ ${#cells[@]} -gt 0 ] || cells=(ssp1 ssp10 bsp dtssp asp ssp-even ssp-steep bsp-steep dtssp-steep
  dtssp-learns ssp1-as-it-is bsp-as-it-is asp-as-it-is)
mapfile -t calibrating < <(for cell in "${cells[@]}"; do
  for ((n = 1; n <= calibrations; n++)); do numbered "$(calibration_of "$cell")" "$n"; done
done | sort -u)
for program in paceline paceline-server paceline-worker; do
  [ -x "$bin/$program" ] || fail "$bin/$program is not there; build it with scripts/build.sh"
done

on_signals pass_on pass_on_save
# All are checked before the first is run: a quarter of an hour later is no time for a typing error.
for cell in "${calibrating[@]}" "${cells[@]}"; do
  arguments_of "$cell"
  "$bin/paceline" check-config "$(config_of "$cell")" "${arguments[@]}" >/dev/null || exit 2
done
for cell in "${calibrating[@]}"; do
  arguments_of "$cell"
  data=$("$bin/paceline" check-config "$(config_of "$cell")" "${arguments[@]}" --get data.path)
  if [[ "$cell" == calibration-learns* ]] && [ ! -e "$data/test_batch.bin" ]; then
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
  to_replace "$run"
  run_child "$root/scripts/run_local.sh" "$config" --bin "$bin" --out "$run" "${replacing[@]}" "${arguments[@]}" >"$run.log" 2>&1
  status=$?
  [ -z "$stopped" ] || fail "stopped in $cell; the same command goes on with it" 1
  [ "$status" -eq 0 ] || fail "$cell failed, see $run.log" 1
  lost=$(lost_nodes "$run")
  [ -z "$lost" ] || fail "$cell lost $lost, see $run" 1
}

# simulated CELL N: the configuration of its real run in virtual time, costs from the Nth calibrating run, and the
# accuracy, which dtssp follows, from that run's curve. trained CELL N: the same in training mode, in which accuracy is
# that of real gradients.
simulated() {
  local calibration
  calibration=$(numbered "$(calibration_of "$1")" "$2")
  in_virtual_time "$1" "$(numbered "$1-simulated" "$2")" "$calibration" \
    "simulate.metric.curve=$(yaml_string "$out/$calibration-metric.csv")" simulate.metric.noise=none
}
trained() {
  in_virtual_time "$1" "$(numbered "$1-trained" "$2")" "$(numbered "$(calibration_of "$1")" "$2")" simulate.mode=training
}
in_virtual_time() { # CELL RUN CALIBRATION [key.path=value …]
  run_child "$bin/paceline" simulate "$out/$1/config.yaml" --out "$out/$2" --force --force --trace "$out/$3" "${@:4}" \
    >"$out/$2.log" 2>&1 || fail "$1 could not be simulated: $(tail -n 1 "$out/$2.log")" 1
}

for cell in "${calibrating[@]}"; do
  real "$cell"
  python3 "$root/scripts/lib/reality.py" metric "$out/$cell" >"$out/$cell-metric.csv" ||
    fail "no curve of accuracy in $out/$cell" 1
  # What it gives back of itself.
  in_virtual_time "$cell" "$cell-simulated" "$cell" "simulate.metric.curve=$(yaml_string "$out/$cell-metric.csv")" \
    simulate.metric.noise=none
done
for cell in "${cells[@]}"; do
  real "$cell"
  for ((n = 1; n <= calibrations; n++)); do
    simulated "$cell" "$n"
    [ "$cell" != dtssp-learns ] || trained "$cell" "$n"
  done
done
python3 "$root/scripts/lib/reality.py" table "$out" "$calibrations" "${calibrating[@]}" -- "${cells[@]}" ||
  fail "the runs could not be compared" 1
