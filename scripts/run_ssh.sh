#!/usr/bin/env bash
# Runs one configuration on several machines over ssh.
#   scripts/run_ssh.sh CONFIG HOSTS [--dir DIR] [--ssh COMMAND] [--force | --resume-or-start]
#                      [key.path=value …]
#     HOSTS         a file with one daemon per line, in order: "server HOST" for each shard, "node HOST" for each node;
#                   empty lines and what stands after a # do not count, nor do line ends of other systems
#     --dir DIR     the built checkout on every host (default: the same path as here)
#     --ssh COMMAND how a host is reached (default: ssh -o BatchMode=yes)
#     --resume-or-start
#                   go on with the run in run.out where the first server's host has a checkpoint of it, else begin it:
#                   the
#                   same command each time
# cluster.endpoints must name the server hosts as the nodes reach them. Data must be at data.path on every node.
# The connections are protected: by the keys in the folder security.keys of every host where the configuration names
# one, else by new keys for this run, of which each host gets its part (its own secrets and the others' public keys).
# Only security.allow_insecure=true runs without. What a host is given, configuration and keys, lies in a new folder of
# its own under its /tmp (or TMPDIR) for as long as the run lasts.
# The run directory is run.out on every host; the authority's (first server) holds the reports, whose phase table is
# printed at the end. With run.trace=true the parts of the trace that other hosts have are copied there when the run is
# over, and trace.json is made of all.
# Ctrl-C, SIGTERM or a terminal that closes: the run stops in order and keeps its model. Ctrl-C or SIGTERM twice: the
# daemons are ended at once. Three times: so are the connections. SIGUSR1 or SIGUSR2: a checkpoint is saved, and the run
# goes on. Exit status: 0 the run succeeded, 1 it failed or was stopped, 2 wrong usage or configuration; where a run is
# to be resumed: 3 there is no checkpoint that is whole, 4 the run has ended well already, 5 it has another
# configuration.
set -uo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
. "$root/scripts/lib/arguments.sh"
. "$root/scripts/lib/daemons.sh"
. "$root/scripts/lib/keys.sh"
. "$root/scripts/lib/runs.sh"
. "$root/scripts/lib/yaml.sh"

dir=$root ssh='ssh -o BatchMode=yes' force='' resume_or_start=''
read_arguments "--dir folder" "--ssh command" --force --resume-or-start key=value words -- "$@"
[ ${#words[@]} -ge 2 ] || fail "a configuration and a host list are needed (see --help)"
[ ${#words[@]} -eq 2 ] || fail "too many arguments: '${words[2]}'"
[ -z "$force" ] || [ -z "$resume_or_start" ] || fail "--resume-or-start and --force exclude each other"
config=${words[0]} hosts=${words[1]}
[ -r "$hosts" ] || fail "cannot read the host list $hosts"
bin="$root/build/release/bin"
[ -x "$bin/paceline" ] || fail "$bin/paceline is not there; build it with scripts/build.sh"
wants_new_keys "$bin/paceline" "$config" "${given[@]}" || exit 2
[ -z "$new_keys" ] || given+=(security.keys=keys) # each daemon is told where its host has them
effective=$("$bin/paceline" check-config "$config" "${given[@]}" --print) || exit 2
get() { "$bin/paceline" check-config "$config" "${given[@]}" --get "$1"; }
[ "$(get cluster.replicas)" = 1 ] ||
  fail "this script starts one server of each shard; give cluster.replicas=1 'cluster.etcd=[]', or start the daemons yourself"
nodes=$(get cluster.nodes) shards=$(get cluster.shards) out=$(get run.out)
case "$out" in '' | null) fail "run.out must say where every host writes its run directory" ;; esac

servers=() workers=() line_number=0
while IFS= read -r line || [ -n "$line" ]; do
  line_number=$((line_number + 1))
  line=${line#$'\xef\xbb\xbf'} line=${line%$'\r'}
  read -r role host rest <<<"${line%%#*}"
  case "$role" in
    '') continue ;;
    server) servers+=("$host") ;;
    node) workers+=("$host") ;;
    *) fail "$hosts:$line_number: got '$role', expected 'server HOST' or 'node HOST'" ;;
  esac
  if [ -z "$host" ] || [ -n "$rest" ]; then fail "$hosts:$line_number: expected one host name after '$role'"; fi
done <"$hosts"
[ ${#servers[@]} -eq "$shards" ] || fail "$hosts names ${#servers[@]} servers, cluster.shards is $shards"
node_counts "$nodes"
{ [ ${#workers[@]} -ge "$nodes_min" ] && [ ${#workers[@]} -le "$nodes_max" ]; } ||
  fail "$hosts names ${#workers[@]} nodes, cluster.nodes is $nodes"
nodes=${#workers[@]}

quoted=$(printf '%q' "$dir")
run_dir=$(printf '%q' "$out") log=$(printf '%q' "$out/server.log")
mapfile -t every_host <<<"$(printf '%s\n' "${servers[@]}" "${workers[@]}" | sort -u)"
# Servers that only their own host would reach, though the run has several: at a loopback address, or, as on a stock
# Debian, at a name that leads to one there.
warn_of_loopback() {
  local endpoints host address k
  [ ${#every_host[@]} -gt 1 ] || return 0
  mapfile -t endpoints < <(get cluster.endpoints | grep -o '"[^"]*"' | tr -d '"')
  for ((k = 0; k < shards; k++)); do
    [[ ${endpoints[$k]} == tcp://* ]] || continue
    host=${endpoints[$k]#tcp://} host=${host%:*} host=${host#[} host=$(printf '%q' "${host%]}")
    # shellcheck disable=SC2086
    address=$($ssh "${servers[$k]}" "getent ahostsv4 $host || getent ahosts $host" </dev/null 2>/dev/null |
      awk '$2 == "STREAM" { print $1; exit }')
    case "$address" in
      127.* | ::1)
        note "${endpoints[$k]} leads to $address on ${servers[$k]}, where no other host comes; give what all reach"
        ;;
    esac
  done
}
warn_of_loopback
# A daemon runs in its ssh session, whose input, a pipe for each, says which signals it is to get, one to a line. Its
# end is a TERM, so that a broken connection leaves nothing running there. The session ends when nobody holds its output
# any more: the one who reads its input must not.
pipes=$(mktemp -d /tmp/paceline.XXXXXX) || fail "cannot create a folder for pipes" 1
inputs=()
declare -A folders # by host: what it was given
launch() {
  local host=$1 command=$2 input=$pipes/${#pids[@]} fd remote
  mkfifo "$input" || fail "cannot create $input" 1
  exec {fd}<>"$input"
  inputs+=("$fd")
  remote="trap '' USR1 USR2; cd $quoted && exec 3<&0 && { $command </dev/null 3<&- & pid=\$!;
    { while read -r signal; do kill -s \"\$signal\" \$pid; done; kill -s TERM \$pid; } <&3 >/dev/null 2>&1 & reader=\$!;
    exec 3<&-; wait \$pid; s=\$?; kill \$reader 2>/dev/null; exit \$s; }"
  (
    for fd in "${inputs[@]}"; do exec {fd}>&-; done # they end with this script, not with the last session
    trap '' HUP # a terminal that closes is this script's to hear of
    # shellcheck disable=SC2086 # a command of several words
    exec $ssh "$host" "$remote" <"$input"
  ) &
  pids+=($!)
}
signal_daemon() { echo "$2" >&"${inputs[$1]}"; }
# on_authority COMMAND: for its shell in the checkout, with nothing to read.
# shellcheck disable=SC2086
on_authority() { $ssh "${servers[0]}" "cd $quoted && $1" </dev/null; }
# Unknown, when the authority's host cannot be reached, counts as begun: nothing is to be ended for that.
training_began() { ! on_authority "! tail -c +$((said + 1)) $log 2>/dev/null | grep -qs 'training begins\|training goes on'"; }
# shellcheck disable=SC2317 # called by the trap
finish() {
  for fd in "${inputs[@]}"; do exec {fd}>&-; done
  for pid in "${pids[@]}"; do kill -TERM "$pid" 2>/dev/null; done
  rm -rf "$pipes"
  # shellcheck disable=SC2086
  for host in "${!folders[@]}"; do $ssh "$host" "rm -rf $(printf '%q' "${folders[$host]}")" </dev/null; done
}
trap finish EXIT

# make_folder HOST: a new folder of ours alone, whose name nobody could foresee: /tmp is everybody's. What a login
# prints comes first.
make_folder() {
  local folder
  # shellcheck disable=SC2086
  folder=$($ssh "$1" 'mktemp -d -t paceline.XXXXXX' </dev/null | tail -n 1) || return 1
  [[ $folder =~ ^/.*/paceline\.[A-Za-z0-9]{6}$ ]] || return 1
  folders[$1]=$folder
}
# give_config HOST
give_config() {
  # shellcheck disable=SC2086
  printf '%s\n' "$effective" | $ssh "$1" "cat >$(printf '%q' "${folders[$1]}/run.yaml")"
}
# give_keys HOST: its part of the new keys.
give_keys() {
  local host=$1 files k i
  mapfile -t files < <({
    for ((k = 0; k < shards; k++)); do [ "${servers[$k]}" != "$host" ] || keys_of_server "$nodes_max"; done
    for ((i = 0; i < nodes; i++)); do [ "${workers[$i]}" != "$host" ] || keys_of_node "$i"; done
  } | sort -u)
  # shellcheck disable=SC2086
  tar -C "$pipes/keys" -cf - "${files[@]}" |
    $ssh "$host" "cd $(printf '%q' "${folders[$host]}") && mkdir -m 700 keys && tar -xf - --no-same-owner -C keys"
}
# arguments_on HOST: what a daemon there is to read.
arguments_on() {
  local words=("${folders[$1]}/run.yaml")
  [ -z "$new_keys" ] || words+=("security.keys=$(yaml_string "${folders[$1]}/keys")")
  printf '%q ' "${words[@]}"
}
# parts_of HOST: the names of the parts of the trace that its daemons write.
parts_of() {
  local k i
  for ((k = 0; k < shards; k++)); do [ "${servers[$k]}" != "$1" ] || echo "trace-shard-$k.json"; done
  for ((i = 0; i < nodes; i++)); do [ "${workers[$i]}" != "$1" ] || echo "trace-node-$i.json"; done
}
# this_run FILE: in a condition for the authority's host, whether that file in the run directory is of this run.
this_run() { echo "$run_dir/$1 -nt $(printf '%q' "${folders[${servers[0]}]}/run.yaml")"; }
# fetch_trace HOST FOLDER: its parts that are newer than its part of the configuration, into a new folder here. Whatever
# a login prints comes first; nothing else of what it sends is taken.
fetch_trace() {
  local names sent part folder
  folder=$(printf '%q' "${folders[$1]}")
  mapfile -t names <<<"$(parts_of "$1")"
  mkdir "$2" "$2/sent" || return 1
  # shellcheck disable=SC2086
  timeout --foreground "$fetch_seconds" $ssh "$1" "cd $quoted && cd $run_dir && parts= && for part in ${names[*]}; do
      [ ! \$part -nt $folder/run.yaml ] || parts=\"\$parts \$part\"; done && [ -n \"\$parts\" ] &&
    tar -czf $folder/trace.tar.gz \$parts && echo trace-parts && base64 $folder/trace.tar.gz && echo trace-whole" \
    </dev/null >"$2/base64" || return 1
  [ "$(tail -n 1 "$2/base64")" = trace-whole ] || return 1
  sed '1,/^trace-parts$/d; $d' "$2/base64" | base64 -d >"$2/tar.gz" || return 1
  mapfile -t sent < <(tar -tzf "$2/tar.gz" | grep -Fx -f <(printf '%s\n' "${names[@]}"))
  [ ${#sent[@]} -gt 0 ] || return 1
  tar -C "$2/sent" -xzf "$2/tar.gz" --no-same-owner --no-same-permissions "${sent[@]}" || return 1
  for part in "${names[@]}"; do
    if [ -f "$2/sent/$part" ] && [ ! -L "$2/sent/$part" ]; then
      mv "$2/sent/$part" "$parts/" || return 1
    else
      note "no $part from $1"
    fi
  done
}
# gather_trace: the parts of all other hosts, to the authority's, where they become one trace.
fetch_seconds=600
gather_trace() {
  local host place=0 parts=$pipes/parts there
  mkdir "$parts"
  for host in "${every_host[@]}"; do
    [ "$host" != "${servers[0]}" ] || continue
    place=$((place + 1))
    fetch_trace "$host" "$pipes/trace-$place" || note "no part of the trace from $host"
  done
  there=$(cd "$parts" && echo *)
  [ "$there" != '*' ] || return 0
  # shellcheck disable=SC2086
  tar -C "$parts" -czf - $there | timeout --foreground "$fetch_seconds" $ssh "${servers[0]}" \
    "cd $quoted && tar -C $run_dir -xzf - --no-same-owner && build/release/bin/paceline trace $run_dir" ||
    note "the trace on ${servers[0]} lacks the other hosts' parts"
}
# report: the phase table, where this run has come to one.
report() {
  # shellcheck disable=SC2086
  $ssh "${servers[0]}" "cd $quoted && { [ ! $(this_run summary.json) ] || build/release/bin/paceline report $run_dir; }" </dev/null
}
if [ -n "$new_keys" ]; then
  "$bin/paceline" keygen --out "$pipes/keys" --nodes "$nodes_max" >/dev/null || exit 1
fi
for host in "${every_host[@]}"; do
  { make_folder "$host" && give_config "$host"; } || fail "cannot copy the configuration to $host" 1
  [ -z "$new_keys" ] || give_keys "$host" || fail "cannot copy its keys to $host" 1
done
said=0 # by earlier generations, in bytes of the authority's log
server_mode='' node_mode=''
if [ -n "$resume_or_start" ]; then
  server_mode=--force node_mode=--force
  # A login may print something before.
  decided=$(on_authority "if cd $run_dir 2>/dev/null && $to_go_on; then
      echo go-on \$(stat -c %s server.log); else echo begin; fi" | tail -n 1)
  case "$decided" in
    begin) force=--force ;;
    go-on*)
      server_mode=--resume node_mode=--resume-or-start # on its host a node may have no log to go on with
      said=${decided#go-on} said=$((said + 0))
      ;;
    *) fail "cannot see what ${servers[0]} has in $out" 1 ;;
  esac
elif [ -n "$force" ]; then
  if [ "${times[--force]}" -lt 2 ]; then
    ! on_authority "grep -qs '^ *\"status\": *\"ok\"' $(printf '%q' "$out/summary.json")" ||
      fail "$out on ${servers[0]} holds a run that ended well; give another run.out, or --force twice to replace it"
    server_mode=--force
  else
    server_mode='--force --force'
  fi
  node_mode=$server_mode
fi
if [ -n "$force" ]; then # or its log would tell of the earlier run's training; its server holds it, and keeps others out by it
  on_authority "[ ! -e $log ] || flock -n $log rm -f $log" ||
    fail "$out on ${servers[0]} holds a run that is still alive, or its server.log cannot be removed" 1
fi
for ((k = 0; k < shards; k++)); do
  launch "${servers[$k]}" "build/release/bin/paceline-server $(arguments_on "${servers[$k]}") --shard $k $server_mode"
done
for ((i = 0; i < nodes; i++)); do
  launch "${workers[$i]}" "build/release/bin/paceline-worker $(arguments_on "${workers[$i]}") --node $i $node_mode"
done
on_signals stop save
attend
result=$?
pids=()
trap 'exit 1' INT TERM HUP # nothing is left to stop: what is fetched now can be had later, too
[ "$(get run.trace)" != true ] || gather_trace
report
[ "$result" -ne 0 ] || exit 0
# Wrong usage or configuration, or nothing to go on with, is passed on from whichever daemon said it first.
case "$result,$early" in
  [2-5],*) exit "$result" ;;
  *,[2-5]) exit "$early" ;;
esac
exit 1
