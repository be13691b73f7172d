#!/usr/bin/env bash
# Runs one configuration on several machines over ssh.
#   scripts/run_ssh.sh CONFIG HOSTS [--dir DIR] [--ssh COMMAND] [--force] [key.path=value …]
#     HOSTS         a file with one daemon per line, in order: "server HOST" for each shard, "node HOST" for each node;
#                   empty lines and lines that begin with # do not count
#     --dir DIR     the built checkout on every host (default: the same path as here)
#     --ssh COMMAND how a host is reached (default: ssh -o BatchMode=yes)
# cluster.endpoints must name the server hosts as the nodes reach them. Data must be at data.path on every node.
# The run directory is run.out on every host; the authority's (first server) holds the reports.
# Ctrl-C once: the run stops in order. Exit status: that of the authority.
set -uo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
fail() { echo "run_ssh: $1" >&2; exit "${2:-2}"; }

config='' hosts='' dir=$root ssh='ssh -o BatchMode=yes' force=''
overrides=()
while [ $# -gt 0 ]; do
  case "$1" in
    -h | --help) sed -n '2,11s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; exit 0 ;;
    --dir) [ $# -ge 2 ] || fail "--dir needs a folder"; dir=$2; shift ;;
    --ssh) [ $# -ge 2 ] || fail "--ssh needs a command"; ssh=$2; shift ;;
    --force) force=--force ;;
    -*) fail "unknown option '$1' (see --help)" ;;
    *=*) overrides+=("$1") ;;
    *) if [ -z "$config" ]; then config=$1; elif [ -z "$hosts" ]; then hosts=$1; else fail "too many arguments: '$1'"; fi ;;
  esac
  shift
done
[ -n "$config" ] && [ -n "$hosts" ] || fail "a configuration and a host list are needed (see --help)"
[ -r "$hosts" ] || fail "cannot read the host list $hosts"
bin="$root/build/release/bin"
[ -x "$bin/paceline" ] || fail "$bin/paceline is not there; build it with scripts/build.sh"
effective=$("$bin/paceline" check-config "$config" "${overrides[@]}" --print) || exit 2
get() { "$bin/paceline" check-config "$config" "${overrides[@]}" --get "$1"; }
nodes=$(get cluster.nodes) shards=$(get cluster.shards) out=$(get run.out) name=$(get run.name)
[ -n "$out" ] && [ "$out" != null ] || fail "run.out must say where every host writes its run directory"

servers=() workers=() line_number=0
while read -r role host rest || [ -n "$role" ]; do
  line_number=$((line_number + 1))
  case "$role" in
    '' | '#'*) continue ;;
    server) servers+=("$host") ;;
    node) workers+=("$host") ;;
    *) fail "$hosts:$line_number: got '$role', expected 'server HOST' or 'node HOST'" ;;
  esac
  [ -n "$host" ] && [ -z "$rest" ] || fail "$hosts:$line_number: expected one host name after '$role'"
done <"$hosts"
[ ${#servers[@]} -eq "$shards" ] || fail "$hosts names ${#servers[@]} servers, cluster.shards is $shards"
[ ${#workers[@]} -eq "$nodes" ] || fail "$hosts names ${#workers[@]} nodes, cluster.nodes is $nodes"

pids=()
remote_config="/tmp/paceline-$name-$$.yaml"
quoted=$(printf '%q' "$dir")
# A daemon runs in its ssh session and is told to stop when the session's input ends, so that a broken connection
# leaves nothing running there. The authority's input is a pipe of its own: closing it stops the run in order.
pipes=$(mktemp -d /tmp/paceline.XXXXXX)
mkfifo "$pipes/authority" "$pipes/others"
exec 8<>"$pipes/authority" 9<>"$pipes/others"
launch() {
  local host=$1 input=$2 command=$3
  # shellcheck disable=SC2086
  $ssh "$host" "cd $quoted && exec 3<&0 && { $command </dev/null & pid=\$!; (cat <&3 >/dev/null; kill -TERM \$pid) & reader=\$!; wait \$pid; s=\$?; kill \$reader 2>/dev/null; exit \$s; }" <"$input" 8>&- 9>&- &
  pids+=($!)
}
finish() {
  exec 8>&- 9>&-
  for pid in "${pids[@]}"; do kill -TERM "$pid" 2>/dev/null; done
  rm -rf "$pipes"
}
trap finish EXIT
trap 'echo "run_ssh: stopping" >&2; exec 8>&-' INT TERM

for host in $(printf '%s\n' "${servers[@]}" "${workers[@]}" | sort -u); do
  # shellcheck disable=SC2086
  printf '%s\n' "$effective" | $ssh "$host" "cat >$remote_config" || fail "cannot copy the configuration to $host" 1
done
for ((k = 0; k < shards; k++)); do
  input=$pipes/others
  [ "$k" -ne 0 ] || input=$pipes/authority
  launch "${servers[$k]}" "$input" "build/release/bin/paceline-server $remote_config --shard $k $force"
done
for ((i = 0; i < nodes; i++)); do
  launch "${workers[$i]}" "$pipes/others" "build/release/bin/paceline-worker $remote_config --node $i $force"
done
wait_for() {
  local status
  while :; do
    wait "$1"
    status=$?
    if [ "$status" -gt 128 ] && kill -0 "$1" 2>/dev/null; then continue; fi
    return "$status"
  done
}
wait_for "${pids[0]}"
result=$?
for pid in "${pids[@]:1}"; do wait_for "$pid"; done
pids=()
for host in $(printf '%s\n' "${servers[@]}" "${workers[@]}" | sort -u); do $ssh "$host" "rm -f $remote_config"; done
exit "$result"
