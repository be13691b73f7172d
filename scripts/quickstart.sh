#!/usr/bin/env bash
# From a bare Debian 12 to a trained network and its phase table in one command: installs what is missing, builds,
# generates data, trains 1 server + 4 nodes x 4 threads with DTSSP, prints the table and the accuracy.
#   scripts/quickstart.sh [--out DIR] [key.path=value …]
# Ctrl-C or SIGTERM once: what is under way is stopped, a run with its model kept. Twice: it is ended at once.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. scripts/lib/processes.sh
trap end_whole INT TERM

echo "== 1/4 installing what is missing"
run_whole scripts/install_deps.sh || exit
echo "== 2/4 building (build/release)"
run_whole scripts/build.sh release paceline paceline-server paceline-worker || exit
overrides=()
for argument in "$@"; do case "$argument" in *=*) overrides+=("$argument") ;; esac; done
echo "== 3/4 data"
run_whole scripts/make_data.sh configs/quickstart.yaml "${overrides[@]}" || exit
echo "== 4/4 training: 1 server, 4 nodes x 4 threads, DTSSP"
exec scripts/run_local.sh configs/quickstart.yaml --force "$@"
