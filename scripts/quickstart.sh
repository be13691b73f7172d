#!/usr/bin/env bash
# From a bare Debian 12 to a trained network and its phase table in one command: installs what is missing, builds,
# generates data, trains 1 server + 4 nodes x 4 threads with DTSSP, prints the table and the accuracy.
#   scripts/quickstart.sh [--out DIR] [key.path=value …]
#     --out DIR   run directory (default runs/quickstart of the checkout, to which paths in key.path=value are relative)
# Ctrl-C or SIGTERM once: what is under way is stopped, a run with its model kept. Twice: it is ended at once.
set -euo pipefail
here=$PWD
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. scripts/lib/processes.sh
fail() { echo "quickstart: $1" >&2; exit 2; }

out=() overrides=()
while [ $# -gt 0 ]; do
  case "$1" in
    -h | --help) sed -n '2,6s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; exit 0 ;;
    --out)
      [ $# -ge 2 ] || fail "--out needs a folder"
      case "$2" in /*) out=(--out "$2") ;; *) out=(--out "$here/$2") ;; esac
      shift
      ;;
    *=*) overrides+=("$1") ;;
    *) fail "unknown argument '$1' (see --help)" ;;
  esac
  shift
done
trap end_whole INT TERM

echo "== 1/4 installing what is missing"
run_whole scripts/install_deps.sh || exit
echo "== 2/4 building (build/release)"
run_whole scripts/build.sh release paceline paceline-server paceline-worker || exit
echo "== 3/4 data"
run_whole scripts/make_data.sh configs/quickstart.yaml "${overrides[@]}" || exit
trap - INT TERM # run_local.sh has its own
[ "$signals" -eq 0 ] || exit 1 # one that came after the last step ended
echo "== 4/4 training: 1 server, 4 nodes x 4 threads, DTSSP"
exec scripts/run_local.sh configs/quickstart.yaml --force "${out[@]}" "${overrides[@]}"
