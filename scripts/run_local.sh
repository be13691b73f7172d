#!/usr/bin/env bash
# Runs one configuration on this machine: the server (or shards) and all nodes, each given DIR/config.yaml.
#   scripts/run_local.sh CONFIG [--out DIR] [--force] [--tcp] [--bin DIR] [key.path=value …]
#     --out DIR   run directory (default runs/<run.name>)
#     --force     replace what an earlier run left in it
#     --tcp       use the endpoints of the configuration; without it the daemons of this machine meet on ipc sockets
#     --bin DIR   where the programs are (default build/release/bin)
# Ctrl-C or SIGTERM once: the run stops in order and keeps its model. Twice: everything is ended at once.
# Exit status: 0 the run succeeded, 1 it failed or was stopped, 2 wrong usage or configuration.
set -uo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

usage() { sed -n '2,9s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; }
fail() { echo "run_local: $1" >&2; exit "${2:-2}"; }

config='' out='' force='' tcp='' bin="$root/build/release/bin"
overrides=()
while [ $# -gt 0 ]; do
  case "$1" in
    -h | --help) usage; exit 0 ;;
    --out) [ $# -ge 2 ] || fail "--out needs a folder"; out=$2; shift ;;
    --bin) [ $# -ge 2 ] || fail "--bin needs a folder"; bin=$2; shift ;;
    --force) force=--force ;;
    --tcp) tcp=1 ;;
    -*) fail "unknown option '$1' (see --help)" ;;
    *=*) overrides+=("$1") ;;
    *) [ -z "$config" ] || fail "two configurations: '$config' and '$1'"; config=$1 ;;
  esac
  shift
done
[ -n "$config" ] || fail "no configuration given (see --help)"
for program in paceline paceline-server paceline-worker; do
  [ -x "$bin/$program" ] || fail "$bin/$program is not there; build it with scripts/build.sh"
done

# The effective configuration is worked out once and given to every daemon. `get` reads one key of it.
effective=$("$bin/paceline" check-config "$config" "${overrides[@]}" --print) || exit 2
get() { "$bin/paceline" check-config "$config" "${overrides[@]}" --get "$1"; }
nodes=$(get cluster.nodes) && shards=$(get cluster.shards) || exit 2
[ -n "$out" ] || out=$(get run.out)
[ -n "$out" ] && [ "$out" != null ] || out="$root/runs/$(get run.name)"
overrides+=("run.out=$out")

if [ -e "$out/server.log" ] || [ -e "$out/summary.json" ] || [ -e "$out/curve.csv" ]; then
  [ -n "$force" ] || fail "$out holds an earlier run; give another --out, or --force to replace it"
fi
mkdir -p "$out" || fail "cannot create $out" 1

sockets=''
if [ -z "$tcp" ]; then
  # A short path: the address of a Unix socket has at most 107 bytes.
  sockets=$(mktemp -d /tmp/paceline.XXXXXX) || fail "cannot create a folder for the sockets" 1
  list=''
  for ((k = 0; k < shards; k++)); do list+="${list:+,}ipc://$sockets/$k"; done
  overrides+=("cluster.endpoints=[$list]")
fi
effective=$("$bin/paceline" check-config "$config" "${overrides[@]}" --print) || exit 2
printf '%s\n' "$effective" >"$out/config.yaml" || fail "cannot write $out/config.yaml" 1

pids=()
stops=0
stop() {
  stops=$((stops + 1))
  if [ "$stops" -eq 1 ]; then
    echo "run_local: stopping (again to end at once)" >&2
    # The authority ends the run in order: final model, reports, then everybody else.
    [ ${#pids[@]} -gt 0 ] && kill -TERM "${pids[0]}" 2>/dev/null
  else
    for pid in "${pids[@]}"; do kill -KILL "$pid" 2>/dev/null; done
  fi
}
# Whatever ends this script ends its daemons; setpriv lets the kernel see to it even if the script is killed.
cleanup() {
  for pid in "${pids[@]}"; do kill -KILL "$pid" 2>/dev/null; done
  [ -z "$sockets" ] || rm -rf "$sockets"
}
trap stop INT TERM
trap cleanup EXIT

# A process group of its own each: Ctrl-C in the terminal reaches this script alone, which passes it on in order.
launch() { setpriv --pdeathsig KILL setsid "$@" </dev/null & pids+=($!); }
for ((k = 0; k < shards; k++)); do launch "$bin/paceline-server" "$out/config.yaml" --shard "$k" $force; done
for ((i = 0; i < nodes; i++)); do launch "$bin/paceline-worker" "$out/config.yaml" --node "$i" $force; done

# The authority's status is the run's; a node that failed although the run went on is named.
wait_for() {
  local status
  while :; do
    wait "$1"
    status=$?
    # A trapped signal makes `wait` return early while the daemon still runs.
    if [ "$status" -gt 128 ] && kill -0 "$1" 2>/dev/null; then continue; fi
    return "$status"
  done
}
wait_for "${pids[0]}"
result=$?
# An authority that never got to a run (its port was taken, say) cannot tell the others.
if [ "$result" -ne 0 ] && [ ! -e "$out/summary.json" ]; then
  for pid in "${pids[@]:1}"; do kill -TERM "$pid" 2>/dev/null; done
fi
for ((n = 1; n < ${#pids[@]}; n++)); do
  wait_for "${pids[$n]}"
  status=$?
  if [ "$status" -ne 0 ] && [ "$result" -eq 0 ]; then
    if [ "$n" -lt "$shards" ]; then name="server shard $n"; else name="node $((n - shards))"; fi
    echo "run_local: $name ended with status $status although the run succeeded; see the logs in $out" >&2
  fi
done
pids=()

if [ -e "$out/summary.json" ]; then "$bin/paceline" report "$out"; fi
case "$result" in
  0) exit 0 ;;
  2) exit 2 ;;
  *) echo "run_local: the run failed or was stopped; see $out/server.log" >&2; exit 1 ;;
esac
