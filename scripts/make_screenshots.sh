#!/usr/bin/env bash
# Makes the pictures of the README again, of real runs: BSP, DTSSP and ASP on four emulated nodes of different speeds (about a
# minute each), their page, and that in a headless Chromium, light, dark and as on a phone.
#   scripts/make_screenshots.sh [--out DIR] [--runs DIR] [--bin DIR] [key.path=value …]
#     --out DIR    where the pictures go (default docs/images)
#     --runs DIR   where the runs are (default runs/screenshots); those that are there and have this configuration are kept
# key.path=value is given to every run: emulate.base_step=500ms gives a slow machine more time. Needs
# scripts/install_deps.sh --browser --plots. A picture has at most 150 kB, since every clone of the repository has it.
# Exit status: 0 the pictures are made, 1 a run failed, was stopped or is invalid, or a picture is too large, 2 wrong usage or
# something is missing.
set -uo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
. "$root/scripts/lib/arguments.sh"
. "$root/scripts/lib/processes.sh"

out="$root/docs/images" runs="$root/runs/screenshots" bin="$root/build/release/bin"
read_arguments "--out folder" "--runs folder" "--bin folder" key=value -- "$@"
"$root/scripts/install_deps.sh" --browser --plots --check || fail "run scripts/install_deps.sh --browser --plots"
trap pass_on INT TERM

configs=()
for policy in bsp dtssp asp; do configs+=("$root/configs/$policy.yaml"); done
# 100 iterations of each worker, whose real steps are a small part of the emulated time on two busy cores, too.
settings=(
  "data.path=$root/data/synthetic"
  train.model=layers 'train.layers=[{kind: flatten}, {kind: dense, out: 64}, {kind: relu}, {kind: dense, out: 10}]'
  train.batch_size=16 train.total_iterations=1600 train.optimizer.lr=0.0002
  train.eval_every_clocks=10 train.eval_samples=1000
  sync.lpr.window_clocks=5
  emulate.base_step=280ms
)
run_child "$root/scripts/compare_policies.sh" "${configs[@]}" --out "$runs" --bin "$bin" "${settings[@]}" "${given[@]}" ||
  fail "${stopped:+stopped: }no pictures: a run has failed" 1
"$bin/paceline" report --html "$runs/report.html" "$runs/bsp" "$runs/dtssp" "$runs/asp" || fail "no page of the runs" 1
/usr/bin/python3 "$root/tests/process/page/screenshots.py" "$runs/report.html" "$out" --prefix report- --top 1240 ||
  fail "no pictures of $runs/report.html" 1
for picture in "$out"/report-*.png; do
  bytes=$(stat -c %s "$picture") || fail "no $picture" 1
  [ "$bytes" -le 150000 ] || fail "$picture has $bytes bytes, expected 150000 at most" 1
done
