#!/usr/bin/env bash
# Makes the pictures of the documents again, of real runs: BSP, DTSSP and ASP on four emulated nodes of different speeds
# (about a minute each), their page, and that in a headless Chromium, light, dark and, light alone, as on a phone: its
# top (report-*.png), and the clock gaps and some steps of DTSSP (steps-*.png). And once more DTSSP, whose live page is
# looked at when half of it is done (live-*.png).
#   scripts/make_screenshots.sh [--out DIR] [--runs DIR] [--bin DIR] [key.path=value …]
#     --out DIR    where the pictures go (default docs/images)
#     --runs DIR   where the runs are (default runs/screenshots); those that are there and have this configuration are
#                  kept
# key.path=value is given to every run: emulate.base_step=500ms gives a slow machine more time. Needs
# scripts/install_deps.sh --browser --plots. A picture has at most 200 kB, since every clone of the repository has it.
# Exit status: 0 the pictures are made, 1 a run failed, was stopped or is invalid, or a picture is too large, 2 wrong
# usage or something is missing.
set -uo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
. "$root/scripts/lib/arguments.sh"
. "$root/scripts/lib/processes.sh"

out="$root/docs/images" runs="$root/runs/screenshots" bin="$root/build/release/bin"
read_arguments "--out folder" "--runs folder" "--bin folder" key=value -- "$@"
"$root/scripts/install_deps.sh" --browser --plots --check || fail "run scripts/install_deps.sh --browser --plots"
on_signals pass_on pass_on_save

configs=("$root/configs/bsp.yaml" "$root/configs/dtssp.yaml" "$root/configs/asp.yaml")
# 100 iterations of each worker, whose real steps are a small part of the emulated time on two busy cores, too. Adam has
# no momentum, which gradients that are not quite new would mislead in so short a run.
settings=(
  "data.path=$root/data/synthetic"
  train.model=layers 'train.layers=[{kind: flatten}, {kind: dense, out: 64}, {kind: relu}, {kind: dense, out: 10}]'
  train.batch_size=16 train.total_iterations=800 train.optimizer.lr=0.0005 train.optimizer.beta1=0
  train.eval_every_clocks=10 train.eval_samples=1000
  sync.lpr.window_clocks=5
  emulate.base_step=280ms
  run.trace=true
)
pictures="$root/tests/process/page/screenshots.py"
run_child "$root/scripts/compare_policies.sh" "${configs[@]}" --out "$runs" --bin "$bin" "${settings[@]}" "${given[@]}" ||
  fail "${stopped:+stopped: }no pictures: a run has failed" 1
"$bin/paceline" report --html "$runs/report.html" --clocks 60..75 "$runs/bsp" "$runs/dtssp" "$runs/asp" ||
  fail "no page of the runs" 1
/usr/bin/python3 "$pictures" "$runs/report.html" "$out" --prefix report- --top 1240 --windows light dark phone ||
  fail "no pictures of the top of $runs/report.html" 1
/usr/bin/python3 "$pictures" "$runs/report.html" "$out" --prefix steps- --figures gaps-1 timeline-1 --windows light dark ||
  fail "no pictures of the steps in $runs/report.html" 1

rm -f "$runs/live/server.log" # it would say where an earlier run was shown
begin_child "$root/scripts/run_local.sh" "$root/configs/dtssp.yaml" --out "$runs/live" --force --bin "$bin" \
  "${settings[@]}" run.http=127.0.0.1:0 "${given[@]}"
/usr/bin/python3 "$pictures" "$runs/live/server.log" "$out" --prefix live- --live 50 --top 1240 --windows light dark
pictured=$?
kill -TERM "$begun" 2>/dev/null # what it would have come to is in the other runs
await_child "$begun"
[ "$pictured" -eq 0 ] || fail "${stopped:+stopped: }no pictures of the live page" 1

for picture in "$out"/{report,steps,live}-*.png; do
  bytes=$(stat -c %s "$picture") || fail "no $picture" 1
  [ "$bytes" -le 200000 ] || fail "$picture has $bytes bytes, expected 200000 at most" 1
done
