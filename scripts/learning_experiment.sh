#!/usr/bin/env bash
# The learning experiment (docs/EXPERIMENTS.md): cifar_cnn_small on real CIFAR-10, 15 epochs, 16 workers x 16 samples
# under each policy, beside one worker with 256. Resumable: a cell whose run directory is finished is kept.
#   scripts/learning_experiment.sh CIFAR10_DIR [--out DIR] [--bin DIR] [CELL:SEED …]
#     CELL   one, bsp, ssp, ssp-null, dtssp, dtssp-null, asp, ssp-each; all cells with seeds 1 and 2 when none is named
# Prints the final test accuracy, the threshold, the seconds and where the curve is, one line per cell.
set -uo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
fail() { echo "learning_experiment: $1" >&2; exit 2; }

data='' out="$root/runs/learning" bin="$root/build/release/bin" cells=()
while [ $# -gt 0 ]; do
  case "$1" in
    -h | --help) sed -n '2,6s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; exit 0 ;;
    --out) out=$2; shift ;;
    --bin) bin=$2; shift ;;
    *:*) cells+=("$1") ;;
    *) data=$1 ;;
  esac
  shift
done
[ -e "$data/test_batch.bin" ] || fail "no CIFAR-10 in '$data' (its binary format; see --help)"
if [ ${#cells[@]} -eq 0 ]; then
  for cell in one bsp ssp dtssp ssp-null dtssp-null asp ssp-each; do cells+=("$cell:1" "$cell:2"); done
fi

# What a cell changes in configs/learning.yaml. One version is a step of 256 samples everywhere but under combine:
# each, where a version is 16 steps; its learning rate is searched for on other seeds.
overrides_of() {
  local ssp="sync.policy=ssp sync.threshold=3"
  local dtssp="sync.policy=dtssp sync.threshold=3 sync.threshold_min=3 sync.threshold_max=10"
  case "$1" in
    one) echo "sync.policy=bsp cluster.nodes=1 cluster.threads_per_node=1 train.batch_size=256 train.total_iterations=2930" ;;
    bsp) echo "sync.policy=bsp" ;;
    ssp) echo "$ssp" ;;
    ssp-null) echo "$ssp sync.refresh_clocks=null" ;;
    dtssp) echo "$dtssp" ;;
    dtssp-null) echo "$dtssp sync.refresh_clocks=null" ;;
    asp) echo "sync.policy=asp sync.combine=each train.optimizer.lr=0.0001" ;;
    ssp-each) echo "$ssp sync.combine=each train.optimizer.lr=0.0001" ;;
    *) return 1 ;;
  esac
}

for cell in "${cells[@]}"; do
  name=${cell%%:*} seed=${cell##*:} run="$out/$name-$seed"
  overrides=$(overrides_of "$name") || fail "no cell '$name' (see --help)"
  if [ ! -e "$run/summary.json" ]; then
    # shellcheck disable=SC2086
    "$root/scripts/run_local.sh" "$root/configs/learning.yaml" --bin "$bin" --out "$run" --force \
      data.path="$data" run.seed="$seed" $overrides >"$run.log" 2>&1 || echo "$name:$seed failed, see $run.log" >&2
  fi
  python3 - "$run" "$cell" <<'PY'
import json, sys
s = json.load(open(sys.argv[1] + "/summary.json"))
print(f"{sys.argv[2]:<14} test accuracy {100 * s['test_accuracy']:.2f} %  threshold {s['final_threshold']}  "
      f"{s['wall_seconds']:.0f} s  {s['status']}  {sys.argv[1]}/curve.csv", flush=True)
PY
done
