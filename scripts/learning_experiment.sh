#!/usr/bin/env bash
# The learning experiment (docs/EXPERIMENTS.md): cifar_cnn_small on real CIFAR-10, 15 epochs, 16 workers x 16 samples
# under each policy, beside one worker with 256. Resumable: a cell that succeeded with the configuration it would have
# now is kept.
#   scripts/learning_experiment.sh CIFAR10_DIR [--out DIR] [--bin DIR] [CELL:SEED …]
#     CELL   one, bsp, ssp, ssp-null, dtssp, dtssp-null, asp, ssp-each, ssp-each-null;
#            all with seeds 3 and 4 when none is named: others chose the rates
# Prints the final test accuracy, the threshold, the seconds and where the curve is, one line per cell, and at the end
# the curves side by side.
# Ctrl-C, SIGTERM or SIGHUP stops the cell in order. Exit status: 0 all cells succeeded, 1 some did not, 2 wrong usage.
set -uo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
. "$root/scripts/lib/arguments.sh"
. "$root/scripts/lib/processes.sh"
. "$root/scripts/lib/runs.sh"
. "$root/scripts/lib/yaml.sh"

data='' out="$root/runs/learning" bin="$root/build/release/bin" cells=()
read_arguments "--out folder" "--bin folder" words -- "$@"
for word in "${words[@]}"; do
  case "$word" in
    *:*) cells+=("$word") ;;
    *) data=$word ;;
  esac
done
[ -x "$bin/paceline" ] || fail "$bin/paceline is not there; build it with scripts/build.sh"
[ -e "$data/test_batch.bin" ] || fail "no CIFAR-10 in '$data' (its binary format; see --help)"
if [ ${#cells[@]} -eq 0 ]; then
  for cell in one bsp ssp dtssp ssp-null dtssp-null asp ssp-each ssp-each-null; do cells+=("$cell:3" "$cell:4"); done
fi

# What a cell changes in configs/learning.yaml. One version is a step of 256 samples everywhere but under combine:
# each, where a version is 16 steps; its learning rate is searched for on other seeds.
overrides_of() {
  local ssp="sync.policy=ssp sync.threshold=3"
  local dtssp="sync.policy=dtssp sync.threshold=3 sync.threshold_min=3 sync.threshold_max=10"
  local each="sync.combine=each train.optimizer.kind=sgd train.optimizer.lr=0.0125"
  each+=" train.optimizer.schedule.warmup_versions=293 train.optimizer.beta1=0.9" # what nobody reads: at its default
  local one="cluster.nodes=1 cluster.threads_per_node=1 train.batch_size=256 train.total_iterations=2930"
  case "$1" in
    one) echo "sync.policy=bsp $one" ;;
    bsp) echo "sync.policy=bsp" ;;
    ssp) echo "$ssp" ;;
    ssp-null) echo "$ssp sync.refresh_clocks=null" ;;
    ssp-each) echo "$ssp $each" ;;
    ssp-each-null) echo "$ssp $each sync.refresh_clocks=null" ;;
    dtssp) echo "$dtssp" ;;
    dtssp-null) echo "$dtssp sync.refresh_clocks=null" ;;
    asp) echo "sync.policy=asp $each" ;;
    *) return 1 ;;
  esac
}

# One line of the table; 1 for a run that did not succeed, or not with all its nodes.
print_cell() {
  python3 - "$1" "$2" <<'PY'
import json, sys
run, cell = sys.argv[1:]
with open(run + "/summary.json", encoding="utf-8") as file:
    s = json.load(file)
accuracy = "unknown" if s["test_accuracy"] is None else f"{100 * s['test_accuracy']:.2f} %"
lost = s["lost_nodes"]
ended = s["status"] + (f", lost {lost} node{'s' * (lost > 1)}" if lost else "")
print(f"{cell:<14} test accuracy {accuracy}  threshold {s['final_threshold']}  {s['wall_seconds']:.0f} s  "
      f"{ended}  {run}/curve.csv", flush=True)
sys.exit(ended != "ok")
PY
}

# The curves side by side: a line for each version at which all of them were evaluated.
print_curves() {
  python3 - "$@" <<'PY'
import csv, os, sys
curves = {}
for run in sys.argv[1:]:
    with open(run + "/curve.csv", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["test_accuracy"]]
    curves[os.path.basename(run)] = {int(row["version"]): 100 * float(row["test_accuracy"]) for row in rows}
print("\ntest accuracy in % by version\nversion  " + "  ".join(f"{name:>15}" for name in curves))
for version in sorted(set.intersection(*map(set, curves.values()))):
    print(f"{version:>7}  " + "  ".join(f"{curve[version]:>15.2f}" for curve in curves.values()))
PY
}

for cell in "${cells[@]}"; do overrides_of "${cell%%:*}" >/dev/null || fail "no cell '${cell%%:*}' (see --help)"; done
mkdir -p "$out" || fail "cannot create $out" 1
on_signals pass_on pass_on_save
failed=0 curves=()
for cell in "${cells[@]}"; do
  name=${cell%%:*} seed=${cell##*:} run="$out/${cell%%:*}-${cell##*:}"
  read -ra overrides <<<"$(overrides_of "$name")"
  overrides+=("data.path=$(yaml_string "$data")" "run.seed=$seed")
  if ! can_keep "$bin/paceline" "$run" "$root/configs/learning.yaml" "${overrides[@]}"; then
    [ -z "$why_not" ] || echo "learning_experiment: $cell is run again: $why_not" >&2
    to_replace "$run"
    run_child "$root/scripts/run_local.sh" "$root/configs/learning.yaml" --bin "$bin" --out "$run" "${replacing[@]}" \
      "${overrides[@]}" >"$run.log" 2>&1
    status=$?
    [ -z "$stopped" ] || fail "stopped in $cell; the same command goes on with it" 1
    if [ "$status" -ne 0 ]; then
      echo "learning_experiment: $cell failed, see $run.log" >&2
      failed=1
      # With status 2 nothing was begun: what is there is an earlier run's.
      if [ "$status" -eq 2 ] || [ ! -e "$run/summary.json" ]; then continue; fi
    fi
  fi
  print_cell "$run" "$cell" || failed=1
  [ ! -e "$run/curve.csv" ] || curves+=("$run")
done
[ ${#curves[@]} -eq 0 ] || print_curves "${curves[@]}"
exit "$failed"
