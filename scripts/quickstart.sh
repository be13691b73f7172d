#!/usr/bin/env bash
# From a bare Debian 12 to a trained network and its phase table in one command: installs what is missing, builds,
# generates data, trains 1 server + 4 nodes x 4 threads with DTSSP, prints the table and the accuracy.
#   scripts/quickstart.sh [--out DIR] [key.path=value …]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

echo "== 1/4 installing what is missing"
scripts/install_deps.sh
echo "== 2/4 building (build/release)"
scripts/build.sh release paceline paceline-server paceline-worker
overrides=()
for argument in "$@"; do case "$argument" in *=*) overrides+=("$argument") ;; esac; done
echo "== 3/4 data"
scripts/make_data.sh configs/quickstart.yaml "${overrides[@]}"
echo "== 4/4 training: 1 server, 4 nodes x 4 threads, DTSSP"
exec scripts/run_local.sh configs/quickstart.yaml --force "$@"
