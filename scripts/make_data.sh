#!/usr/bin/env bash
# Makes the generated data set that a configuration asks for, when it asks for one and it is not there yet.
#   scripts/make_data.sh CONFIG [--bin DIR] [key.path=value …]
# Exit status: 0 nothing was missing or it was made, 1 it could not be, 2 wrong usage or configuration.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
. "$root/scripts/lib/arguments.sh"

bin=$(programs_of "$root")
read_arguments "--bin folder" key=value words -- "$@"
[ -x "$bin/paceline" ] || fail "$bin/paceline is not there; build it with scripts/build.sh"
get() { "$bin/paceline" check-config "${words[@]}" "${given[@]}" --get "$1"; }
kind=$(get data.kind)
[ "$kind" = synthetic ] || exit 0
path=$(get data.path)
[ "$path" != null ] || fail "the configuration names no data.path"
[ -e "$path/test_batch.bin" ] && exit 0
echo "make_data: generating the synthetic data set in $path"
exec "$bin/paceline" data synthesize --out "$path"
