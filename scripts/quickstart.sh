#!/usr/bin/env bash
# From a bare Debian to a trained network and its phase table in one command: installs what is missing, builds,
# generates data, trains 1 server + 4 nodes x 4 threads with DTSSP, prints the table and the accuracy.
#   scripts/quickstart.sh [--out DIR] [key.path=value …]
#     --out DIR   run directory, not one that holds a run (default runs/quickstart of the checkout, which is replaced);
#                 paths in key.path=value are relative to the checkout
# Of an installed package it only makes data and trains, in runs/ and data/ of the folder that it is called in.
# Ctrl-C or SIGTERM once, or SIGHUP: what is under way is stopped, a run with its model kept. Twice: it is ended at
# once. SIGUSR1 or SIGUSR2: a checkpoint of the run is saved, and everything goes on.
set -euo pipefail
here=$PWD
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
. "$root/scripts/lib/arguments.sh"
. "$root/scripts/lib/processes.sh"
. "$root/scripts/lib/runs.sh"
cd "$(workplace_of "$root")"

out='' force=()
read_arguments "--out folder" key=value -- "$@"
case "$out" in
  '') run=runs/quickstart force=(--force --force) ;;
  /*) run=$out ;;
  *) run=$here/$out ;;
esac
[ ${#force[@]} -gt 0 ] || [ -z "$(run_files "$run" 2>/dev/null)" ] || fail "$run holds an earlier run; give another --out"
on_signals end_whole

if [ -e "$root/scripts/build.sh" ]; then
  echo "== 1/4 installing what is missing"
  run_whole "$root/scripts/install_deps.sh" || exit
  echo "== 2/4 building (build/release)"
  run_whole "$root/scripts/build.sh" release paceline paceline-server paceline-worker || exit
fi
echo "== 3/4 data"
run_whole "$root/scripts/make_data.sh" "$root/configs/quickstart.yaml" "${given[@]}" || exit
on_signals pass_on pass_on_save
[ "$signals" -eq 0 ] || exit 1 # one that came after the last step ended
echo "== 4/4 training: 1 server, 4 nodes x 4 threads, DTSSP"
status=0
run_child "$root/scripts/run_local.sh" "$root/configs/quickstart.yaml" --out "$run" "${force[@]}" "${given[@]}" || status=$?
[ "$status" -eq 1 ] && [ "$(run_status "$run")" = invalid ] || exit "$status"
echo "quickstart: the network is trained and its accuracy counts. This machine is too slow for the emulated speeds," \
  "so the times say nothing about policies; emulate.base_step=500ms gives it more time" >&2
