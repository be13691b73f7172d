#!/usr/bin/env bash
# Makes the generated data set that a configuration asks for, when it asks for one and it is not there yet.
#   scripts/make_data.sh CONFIG [--bin DIR] [key.path=value …]
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

bin="$root/build/release/bin" arguments=()
while [ $# -gt 0 ]; do
  case "$1" in
    --bin) bin=$2; shift ;;
    *) arguments+=("$1") ;;
  esac
  shift
done
get() { "$bin/paceline" check-config "${arguments[@]}" --get "$1"; }
kind=$(get data.kind)
[ "$kind" = synthetic ] || exit 0
path=$(get data.path)
[ "$path" != null ] || { echo "make_data: the configuration names no data.path" >&2; exit 2; }
[ -e "$path/test_batch.bin" ] && exit 0
echo "make_data: generating the synthetic data set in $path"
exec "$bin/paceline" data synthesize --out "$path"
