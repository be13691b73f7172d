#!/usr/bin/env bash
# Runs one configuration on this machine: the server (or shards) and all nodes, each given DIR/config.yaml.
#   scripts/run_local.sh CONFIG [--out DIR] [--force | --resume-or-start] [--tcp] [--bin DIR] [key.path=value …]
#   scripts/run_local.sh --resume DIR [--tcp] [--bin DIR] [key.path=value …]
#     --out DIR      run directory (default runs/<run.name>)
#     --force        replace what an earlier run left in it; a run that ended well only when given twice
#     --resume DIR   go on with the run in DIR from its newest whole checkpoint, by DIR/config.yaml; what all daemons
#                    must agree on cannot be changed
#     --resume-or-start
#                    go on with the run in the run directory where it holds a checkpoint, else begin it: the same
#                    command
#                    each time
#     --tcp          use the endpoints of the configuration; without it the daemons of this machine meet on ipc sockets
#     --bin DIR      where the programs are (default build/release/bin)
# Ctrl-C, SIGTERM or a terminal that closes: the run stops in order and keeps its model. Ctrl-C or SIGTERM twice:
# everything is ended at once. SIGUSR1 or SIGUSR2: a checkpoint is saved, and the run goes on.
# Exit status: 0 the run succeeded, 1 it failed or was stopped, 2 wrong usage or configuration; where a run is to be
# resumed: 3 there is no checkpoint that is whole, 4 the run has ended well already, 5 it has another configuration.
set -uo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
. "$root/scripts/lib/arguments.sh"
. "$root/scripts/lib/daemons.sh"
. "$root/scripts/lib/runs.sh"
. "$root/scripts/lib/yaml.sh"

out='' force='' resume='' resume_or_start='' tcp='' bin=$(programs_of "$root")
read_arguments "--out folder" "--bin folder" "--resume folder" --force --resume-or-start --tcp key=value words -- "$@"
[ ${#words[@]} -le 1 ] || fail "two configurations: '${words[0]}' and '${words[1]}'"
config=${words[0]:-} overrides=("${given[@]}")
if [ -n "$resume" ]; then
  [ -z "$config$out$force$resume_or_start" ] ||
    fail "--resume goes with no configuration, no --out and no --force: the run is in $resume"
  [ -e "$resume/config.yaml" ] || fail "$resume/config.yaml is not there: no run to resume" 3
  config=$resume/config.yaml out=$resume
fi
[ -n "$config" ] || fail "no configuration given (see --help)"
[ -z "$force" ] || [ -z "$resume_or_start" ] || fail "--resume-or-start and --force exclude each other"
for program in paceline paceline-server paceline-worker; do
  [ -x "$bin/$program" ] || fail "$bin/$program is not there; build it with scripts/build.sh"
done

# The effective configuration is worked out once and given to every daemon. `get` reads one key of it. The data are
# looked at here, too, and the model that a run begins with: one line says what is wrong with them, where every node
# would say it.
checks=(--data)
[ -z "$resume" ] || checks+=(--resume)
[ -n "$resume$resume_or_start" ] || checks+=(--init)
"$bin/paceline" check-config "$config" "${overrides[@]}" "${checks[@]}" >/dev/null || exit $?
get() { "$bin/paceline" check-config "$config" "${overrides[@]}" --get "$1"; }
nodes=$(get cluster.nodes) && shards=$(get cluster.shards) && data=$(get data.path) || exit 2
[ "$(get cluster.replicas)" = 1 ] ||
  fail "two servers of each shard are for two machines; give cluster.replicas=1 'cluster.etcd=[]', or start the daemons yourself"
[ "$(get pipeline.balance)" != loop ] ||
  fail "pipeline.balance: loop is for a training loop of one's own, which these workers do not have; expected time, memory or a list"
node_counts "$nodes"
nodes=$nodes_max
[ -n "$out" ] || out=$(get run.out)
[ -n "$out" ] || out="$(workplace_of "$root")/runs/$(get run.name)"
overrides+=("run.out=$(yaml_string "$out")")
overrides+=("data.path=$(yaml_string "$(realpath -sm "$data")")") # `paceline evaluate` may be called from elsewhere
# train.init_from is read where a run is begun alone; whether this one is, its directory says.
goes_on() { (cd "$out" 2>/dev/null && eval "$to_go_on"); }
if [ -n "$resume_or_start" ] && ! goes_on; then
  "$bin/paceline" check-config "$config" "${overrides[@]}" --init >/dev/null || exit $?
fi

made_for "$out"
mkdir -p "$out" || fail "cannot create $out" 1
[ -n "$resume$resume_or_start" ] || clear_run "$out" --out

sockets=''
if [ -z "$tcp" ]; then
  # A short path: the address of a Unix socket has at most 107 bytes. The folder is locked for as long as this script or
  # one of its daemons lives; folders that nobody holds any more are of killed runs.
  sockets=$(mktemp -d /tmp/paceline-run.XXXXXX) || fail "cannot create a folder for the sockets" 1
  { exec {lock}<"$sockets" && flock -n "$lock"; } || fail "cannot lock $sockets" 1
  find /tmp -maxdepth 1 -type d -name 'paceline-run.*' -user "$(id -u)" -mmin +1 \
    -exec flock -n {} rm -rf {} \; 2>/dev/null
  list=''
  for ((k = 0; k < shards; k++)); do list+="${list:+,}ipc://$sockets/$k"; done
  overrides+=("cluster.endpoints=[$list]")
fi
server_mode=$force node_mode=$force settings=()
read_from=$out/config.yaml
if [ -n "$resume$resume_or_start" ]; then
  # The run's configuration stays what it was; of one that is begun the server writes it.
  settings=("${overrides[@]}") read_from=$config
  if [ -n "$resume" ]; then
    server_mode=--resume node_mode=--resume
  elif goes_on; then
    server_mode=--resume node_mode=--resume-or-start # a node that never came has no log to go on with
  else
    server_mode=--force node_mode=--force
  fi
else
  effective=$("$bin/paceline" check-config "$config" "${overrides[@]}" --print) || exit 2
  printf '%s\n' "$effective" >"$out/config.yaml" || fail "cannot write $out/config.yaml" 1
fi
said=$(stat -c %s "$out/server.log" 2>/dev/null) || said=0 # by earlier generations
summary_id() { stat -c '%i %y' "$out/summary.json" 2>/dev/null; }
earlier=$(summary_id) # what a resume that is refused leaves as it was

signal_daemon() { if [ "$2" = USR2 ]; then ask_to_save "${pids[$1]}"; else kill -s "$2" "${pids[$1]}" 2>/dev/null; fi; }
training_began() {
  [ "$(stat -c %s "$out/server.log" 2>/dev/null)" -ge "$said" ] 2>/dev/null || said=0 # it was begun anew
  tail -c "+$((said + 1))" "$out/server.log" 2>/dev/null | grep -qs 'training begins\|training goes on'
}
# Whatever ends this script ends its daemons, in order; setpriv lets the kernel see to it even if the script is killed.
# shellcheck disable=SC2317 # called by the trap
cleanup() {
  end_daemons
  [ -z "$sockets" ] || rm -rf "$sockets"
}
trap cleanup EXIT

# A process group of its own each: Ctrl-C in the terminal reaches this script alone, which passes it on in order.
launch() { setpriv --pdeathsig TERM setsid "$@" </dev/null & pids+=($!); }
for ((k = 0; k < shards; k++)); do
  launch "$bin/paceline-server" "$read_from" --shard "$k" ${server_mode:+"$server_mode"} "${settings[@]}"
done
for ((i = 0; i < nodes; i++)); do
  launch "$bin/paceline-worker" "$read_from" --node "$i" ${node_mode:+"$node_mode"} "${settings[@]}"
done
on_signals stop save

# The authority's status is the run's; a daemon that failed although the run went on is named.
attend
result=$?
pids=()
for n in "${!statuses[@]}"; do
  if [ "${statuses[$n]}" -ne 0 ] && [ "$result" -eq 0 ]; then
    echo "run_local: $(name_of "$n") ended with status ${statuses[$n]} although the run succeeded; see the logs in $out" >&2
  fi
done

if [ -e "$out/summary.json" ] && [ "$(summary_id)" != "$earlier" ]; then "$bin/paceline" report "$out"; fi
[ "$result" -ne 0 ] || exit 0
# Status 2, wrong usage or configuration, is passed on from whichever daemon said it first.
if [ -n "$resume$resume_or_start" ]; then
  case "$result,$early" in
    [2-5],*) exit "$result" ;;
    *,[2-5]) exit "$early" ;;
  esac
elif [ "$result" -eq 2 ] || [ "$early" = 2 ]; then
  forget_run "$out"
  exit 2
fi
fail "$(what_became_of "$out"); see $out/server.log" 1
