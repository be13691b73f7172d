#!/usr/bin/env bash
# Builds the libFuzzer programs (clang, under the address and the undefined-behaviour sanitizer, everything
# instrumented) and runs one after another, at the lowest priority: codec, config, checkpoint, engine_state, cifar10
# (docs/TESTING.md, Fuzzers).
#   scripts/fuzz.sh [--seconds N] [NAME …]      each for 180 seconds; all when none is named
# A program goes on from what it has found worth keeping, build/fuzz/corpus/NAME; at first that is a few inputs that are
# right, or nothing. Prints how many inputs each has run, and the edges (cov) and features (ft) of the code that they
# reach. What fails stays: build/fuzz/found-NAME-…, to be run again by `build/fuzz/tests/NAME_fuzz_libfuzzer FILE`.
# Ctrl-C, SIGTERM or SIGHUP stops it. Exit status: 0 nothing was found, 1 something was, or it was stopped or could not
# be built, 2 wrong usage.
set -uo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
. "$root/scripts/lib/arguments.sh"
. "$root/scripts/lib/processes.sh"

seconds=180 all=(codec config checkpoint engine_state cifar10)
read_arguments "--seconds number" words -- "$@"
names=("${words[@]}")
[ ${#names[@]} -gt 0 ] || names=("${all[@]}")
targets=()
for name in "${names[@]}"; do
  [[ " ${all[*]} " == *" $name "* ]] || fail "no fuzzer '$name' (see --help)"
  targets+=("${name}_fuzz_libfuzzer")
  case "$name" in checkpoint | engine_state) targets+=("${name}_fuzz") ;; esac # it writes what the other begins with
done

cd "$root" || exit 1
on_signals pass_on pass_on_save
said=$(mktemp /tmp/paceline-fuzz.XXXXXX)
trap 'rm -f "$said"' EXIT
{ run_child cmake --preset fuzz && run_child cmake --build build/fuzz --target "${targets[@]}"; } >"$said" 2>&1 ||
  { cat "$said" >&2; fail "not built" 1; }

found=''
for name in "${names[@]}"; do
  corpus=build/fuzz/corpus/$name options=()
  if [ ! -d "$corpus" ]; then
    mkdir -p "$corpus" || fail "cannot create $corpus" 1
    case "$name" in
      config) cp configs/*.yaml "$corpus" ;;
      checkpoint | engine_state) "build/fuzz/tests/${name}_fuzz" --corpus "$corpus" || fail "no corpus" 1 ;;
    esac
  fi
  [ "$name" != cifar10 ] || options=(-max_len=20000) # six images
  run_child nice -n 19 "build/fuzz/tests/${name}_fuzz_libfuzzer" -max_total_time="$seconds" "${options[@]}" \
    -artifact_prefix="build/fuzz/found-$name-" "$corpus" >"$said" 2>&1
  status=$?
  [ -z "$stopped" ] || fail "stopped in $name" 1
  if [ "$status" -eq 0 ]; then
    sed -n "s/^#\([0-9]*\)[[:space:]]*DONE[[:space:]]*\(cov: [0-9]* ft: [0-9]*\).*/$name: \1 inputs, \2: nothing found/p" "$said"
  else
    found=1
    tail -n 60 "$said"
    echo "$name: failed"
  fi
done
[ -z "$found" ] || exit 1
