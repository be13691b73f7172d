#!/usr/bin/env bash
# Runs one configuration in a Slurm allocation: inside salloc, or as the body of an sbatch script, which ends with
#   exec scripts/run_slurm.sh CONFIG [OPTION …] [key.path=value …]
#     --out DIR        run directory (default run.out of the configuration, else runs/<run.name>), on a file system that
#                      all
#                      hosts share; a job array's tasks have one each, DIR/<task>
#     --force          replace what an earlier run left in it; a run that ended well only when given twice
#     --resume-or-start
#                      go on with the run in the run directory where it holds a checkpoint, else begin it. A job that
#                      Slurm
#                      has requeued does so without being told
#     --requeue        on SIGUSR1 or SIGUSR2 the run stops with its state saved, and Slurm is asked to begin the job
#                      again
#     --interface NAME the network interface of each server by which the nodes reach it (default: the host's address
#     that
#                      Slurm has)
#     --srun OPTIONS   more options for the srun that starts a node
#     --doctor         start nothing; let `paceline doctor` look at each daemon's place
#     --bin DIR        where the programs are (default build/release/bin)
# The job's tasks are places for daemons. With as many as there are servers and nodes each has its own, servers first;
# with fewer the servers lie beside nodes. The checkout, the run directory and the data are at the same path on every
# host. The script chooses cluster.endpoints, new keys for the run where the configuration says nothing of its security,
# as many threads as a task has processors where it does not name cluster.threads_per_node, and checkpoint.every=10m
# where it has no checkpoints.
# SIGUSR1 or SIGUSR2, to this script (sbatch --signal=B:USR1@90) or to its steps (--signal=USR1@90): a checkpoint is
# saved, and the run goes on. SIGTERM, as Slurm sends it when time runs out, on scancel and on preemption: the run
# stops, with its state saved. Ctrl-C: the same, and twice: at once.
# Exit status: 0 the run succeeded, 1 it failed or was stopped, 2 wrong usage or configuration; where a run is to be
# resumed: 3 there is no checkpoint that is whole, 4 the run has ended well already, 5 it has another configuration.
set -uo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
if [ ! -e "$root/scripts/lib/slurm.sh" ] && [ -n "${SLURM_JOB_ID:-}" ]; then # sbatch itself was given this file, and copied it
  # Of an array's last job all are shown, since its number is theirs, and of a heterogeneous one all components.
  root=$(scontrol show job "$SLURM_JOB_ID" | sed -n '/^ *Command=/{s///;s/ .*//;p;q}')
  root=$(cd "$(dirname "$root")/.." && pwd)
  BASH_ARGV0=$root/scripts/run_slurm.sh # what it is called, and where its usage stands
fi
. "$root/scripts/lib/arguments.sh" || exit 2
. "$root/scripts/lib/daemons.sh"
. "$root/scripts/lib/keys.sh"
. "$root/scripts/lib/processes.sh"
. "$root/scripts/lib/runs.sh"
. "$root/scripts/lib/slurm.sh"
. "$root/scripts/lib/yaml.sh"

out='' force='' resume_or_start='' requeue='' interface='' srun='' doctor='' bin=$(programs_of "$root")
read_arguments "--out folder" "--bin folder" "--interface name" "--srun options" --force --resume-or-start --requeue --doctor \
  key=value words -- "$@"
[ ${#words[@]} -le 1 ] || fail "two configurations: '${words[0]}' and '${words[1]}'"
[ ${#words[@]} -eq 1 ] || fail "no configuration given (see --help)"
config=${words[0]}
# Until there are daemons.
asked_early=''
# shellcheck disable=SC2317 # called by a trap
save_nothing() {
  asked_early=yes
  note "asked for a checkpoint before there is a server that has something to save"
}
trap 'exit 1' INT TERM HUP
trap save_nothing USR1 USR2
[ -z "$force" ] || [ -z "$resume_or_start" ] || fail "--resume-or-start and --force exclude each other"
[ -n "${SLURM_JOB_ID:-}" ] || fail "there is no Slurm allocation here: call it inside salloc or from an sbatch script"
[ "${SLURM_STEP_NUM_TASKS:-1}" -le 1 ] ||
  fail "srun started it $SLURM_STEP_NUM_TASKS times; call it once, without srun: it starts all daemons itself"
command -v srun >/dev/null || fail "there is no srun here, which starts the daemons"
for program in paceline paceline-server paceline-worker; do
  [ -x "$bin/$program" ] || fail "$bin/$program is not there; build it with scripts/build.sh"
done
bin=$(realpath "$bin")

wants_new_keys "$bin/paceline" "$config" "${given[@]}" || exit 2
[ -z "$new_keys" ] || given+=(security.keys=keys) # each daemon is told where its host has them
# The configuration as it will be, but for where the servers are, of which it may say nothing: as many shards as fit it.
check() { "$bin/paceline" check-config "$config" "${given[@]}" "$@"; }
list=''
for ((shards = 1; shards <= 64; shards++)); do
  list+="${list:+,}\"ipc://nowhere/$shards\""
  refused=$(check "cluster.endpoints=[$list]" 2>&1 >/dev/null) && break
  [ "$shards" -ne 1 ] || first_refused=$refused
done
[ "$shards" -le 64 ] || { echo "$first_refused" >&2; exit 2; }
given+=("cluster.endpoints=[$list]")
get() { check --get "$1"; }
data=$(get data.path) && nodes=$(get cluster.nodes) || exit 2
[ "$(get cluster.replicas)" = 1 ] ||
  fail "this script starts one server of each shard; give cluster.replicas=1 'cluster.etcd=[]', or start the daemons yourself"
node_counts "$nodes"

read_allocation
place_daemons "$shards" "$nodes_min" "$nodes_max" || fail "job $SLURM_JOB_ID has ${#place_host[@]} tasks on $(
  printf '%s\n' "${place_host[@]}" | sort -u | wc -l) hosts; cluster.nodes is $nodes, expected a task for each (sbatch --ntasks)"
nodes=${#node_place[@]}

[ -n "$out" ] || out=$(get run.out)
[ -n "$out" ] || out="$(workplace_of "$root")/runs/$(get run.name)"
[ -z "${SLURM_ARRAY_TASK_ID:-}" ] || out="$out/$SLURM_ARRAY_TASK_ID"
out=$(realpath -sm "$out")
given+=("run.out=$(yaml_string "$out")")
[ "$data" = null ] || given+=("data.path=$(yaml_string "$(realpath -sm "$data")")")
again=${SLURM_RESTART_COUNT:-0} # how often Slurm has begun this job again
if [ "$again" -gt 0 ]; then resume_or_start=--resume-or-start force=''; fi
made_for "$out"
mkdir -p "$out" || fail "cannot create $out" 1
resume=''
if [ -n "$resume_or_start" ]; then
  if (cd "$out" && eval "$to_go_on"); then resume=--resume; else force=--force; fi
fi
[ -n "$resume$doctor" ] || clear_run "$out" --out

# Threads by processors. A run that goes on has those it began with, or it would be another.
cpus=${place_cpus[${node_place[0]}]}
for place in "${node_place[@]}"; do [ "${place_cpus[$place]}" -ge "$cpus" ] || cpus=${place_cpus[$place]}; done
if ! sed 's/#.*//' "$config" | grep -q 'threads_per_node' && [[ " ${given[*]}" != *' cluster.threads_per_node='* ]]; then
  threads=$cpus
  [ -z "$resume" ] || [ ! -e "$out/config.yaml" ] ||
    threads=$("$bin/paceline" check-config "$out/config.yaml" --get cluster.threads_per_node) || exit 2
  given+=("cluster.threads_per_node=$threads")
fi
threads=$(get cluster.threads_per_node) || exit 2
[ "$threads" -le "$cpus" ] ||
  note "$threads threads of a node share $cpus processors of a task; give more (sbatch --cpus-per-task), or fewer threads"
if [ "$(get checkpoint.every)$(get checkpoint.every_clocks)" = nullnull ]; then
  note "no checkpoints are configured; one is written every 10 minutes (checkpoint.every)"
  given+=(checkpoint.every=10m)
fi

# srun tells the defaults of a job apart from what is said of a step only if the environment says nothing.
for name in NTASKS NPROCS NTASKS_PER_NODE CPUS_PER_TASK MEM_PER_CPU MEM_PER_NODE DISTRIBUTION EXPORT_ENV KILL_BAD_EXIT WAIT; do
  unset "SLURM_$name" "SRUN_$name"
done
job=$SLURM_JOB_ID jobs=$SLURM_JOB_ID
for ((k = 1; k < ${SLURM_HET_SIZE:-1}; k++)); do # each component is a job of its own, with its steps
  name=SLURM_JOB_ID_HET_GROUP_$k
  jobs+=,${!name}
done
# step_at PLACE NAME: fills the array `step`, an srun of one task there. It may use all of the job's memory on that
# host. That another task has ended, or failed, is no reason to end it.
step_at() {
  step=(srun --nodes=1 --ntasks=1 "--nodelist=${place_host[$1]}" "--job-name=$2" --mem=0 --export=ALL
    --kill-on-bad-exit=0 --no-kill --wait=0)
  [ -z "${place_group[$1]}" ] || step+=("--het-group=${place_group[$1]}")
}
# Steps side by side: one that has its place alone takes its processors and no more, or the next would wait for them;
# one that lies beside others takes none away.
alone_at() { step_at "$@" && step+=(--exact "--cpus-per-task=${place_cpus[$1]}"); }
beside_at() { step_at "$@" && step+=(--overlap); }

files=$(mktemp -d -t paceline.XXXXXX) || fail "cannot create a folder for temporary files" 1
folders=paceline-job-$job-$(cksum <<<"$out" | cut -d' ' -f1) # what the daemons' folders on their hosts are called
# What is killed leaves its folder, with its keys, on its host: a step on each removes them.
# shellcheck disable=SC2317 # called by the trap
remove_folders() {
  local place sweep sweeps=()
  local -A swept=()
  for place in "${shard_place[@]}" "${node_place[@]}"; do
    [ -z "${swept[${place_host[$place]}]:-}" ] || continue
    swept[${place_host[$place]}]=yes
    beside_at "$place" sweep
    # shellcheck disable=SC2016 # the host's own
    timeout -k 5 20 "${step[@]}" sh -c 'rm -rf "${TMPDIR:-/tmp}/$0".*' "$folders" </dev/null 2>/dev/null &
    sweeps+=($!)
  done
  for sweep in "${sweeps[@]}"; do wait_for "$sweep"; done
}
# shellcheck disable=SC2317 # called by the trap
finish() {
  trap : INT TERM HUP
  rm -rf "$files" # with all keys; a step that has begun has its part open
  end_daemons
  [ -z "$killed" ] || remove_folders
  case "$made" in folder*) rmdir "$out" 2>/dev/null ;; esac # where nothing was written
}
killed='' # whether something may have been; the last generation's daemons, say
[ "$again" -eq 0 ] || killed=yes
trap finish EXIT

# Where the servers listen: each host of some says which ports it has free.
declare -A shards_on=()
for place in "${shard_place[@]}"; do shards_on[${place_host[$place]}]+="$place "; done
probes=()
for host in "${!shards_on[@]}"; do
  read -ra here <<<"${shards_on[$host]}"
  beside_at "${here[0]}" ports
  # Another port on each host: two of Slurm's hosts may have one address.
  "${step[@]}" bash "$root/scripts/lib/free_ports.sh" ${#here[@]} $((10000 + (job + 313 * ${#probes[@]}) % 20000)) ${interface:+"$interface"} \
    </dev/null >"$files/ports-$host" &
  probes+=($!)
done
for probe in "${probes[@]}"; do wait_for "$probe" || fail "the servers' hosts do not say which ports they have free" 1; done
declare -A address=() ports=()
for host in "${!shards_on[@]}"; do
  ports[$host]=$(sed -n 's/^free_ports //p' "$files/ports-$host")
  address[$host]=$(sed -n 's/^free_address //p' "$files/ports-$host")
  [ -n "${address[$host]}" ] || address[$host]=$(address_of "$host")
  [[ "${address[$host]}" != *:* ]] || address[$host]="[${address[$host]}]"
done
list=''
for place in "${shard_place[@]}"; do
  host=${place_host[$place]}
  read -r port rest <<<"${ports[$host]}"
  ports[$host]=$rest
  list+="${list:+,}\"tcp://${address[$host]}:$port\""
done
given+=("cluster.endpoints=[$list]")
check --print >"$files/run.yaml" || exit 2

if [ -n "$new_keys" ]; then
  "$bin/paceline" keygen --out "$files/keys" --nodes "$nodes_max" >/dev/null || exit 1
fi
# pack NAME KEY…: what a daemon's host is given.
pack() { tar -C "$files" -cf "$files/$1.tar" run.yaml ${new_keys:+"${@:2}"} || fail "cannot write to $files" 1; }
mapfile -t server_keys < <(keys_of_server "$nodes_max")
pack server "${server_keys[@]/#/keys/}"
for ((i = 0; i < nodes; i++)); do
  mapfile -t node_keys < <(keys_of_node "$i")
  pack "node-$i" "${node_keys[@]/#/keys/}"
done

said=$(stat -c %s "$out/server.log" 2>/dev/null) || said=0 # by earlier generations
training_began() {
  [ "$(stat -c %s "$out/server.log" 2>/dev/null)" -ge "$said" ] 2>/dev/null || said=0 # it was begun anew
  tail -c "+$((said + 1))" "$out/server.log" 2>/dev/null | grep -qs 'training begins\|training goes on'
}
# signal_daemon N SIGNAL: by scancel, not by srun, which makes of a SIGTERM or SIGHUP of its own the sudden end of its
# step.
step_name() { if [ "$1" -lt "$shards" ]; then echo "shard-$1"; else echo "node-$(($1 - shards))"; fi; }
signal_daemon() {
  local id
  id=$(squeue --noheader --steps "--jobs=$jobs" --format='%i %j' 2>/dev/null |
    awk -v name="$(step_name "$1")" '$2 == name { print $1 }' | tail -n 1)
  [ "$2" != KILL ] || killed=yes
  [ -n "$id" ] && scancel --signal="$2" "$id" 2>/dev/null
}
place_of_shard() { if [ -n "$shards_apart" ]; then alone_at "$@"; else beside_at "$@"; fi; }

# doctor_at NAME INPUT WORD…: what `paceline doctor` says of the place that `step` is at.
doctor_at() {
  echo "== $1 on ${place_host[$place]}"
  "${step[@]}" bash "$root/scripts/lib/slurm_task.sh" "$folders" 0 "$bin/paceline" doctor -- "${@:3}" <"$files/$2.tar" || unfit=1
}
if [ -n "$doctor" ]; then
  unfit=0
  for ((k = 0; k < shards; k++)); do
    place=${shard_place[$k]}
    place_of_shard "$place" "shard-$k"
    doctor_at "server shard $k" server --shard "$k" ${force:+"$force"}
  done
  for ((i = 0; i < nodes; i++)); do
    place=${node_place[$i]}
    alone_at "$place" "node-$i"
    doctor_at "node $i" "node-$i" --node "$i" ${force:+"$force"}
  done
  exit "$unfit"
fi

# begin_again: what --requeue is for.
begin_again() {
  note "asks Slurm to begin job $job again"
  scontrol requeue "$job" || fail "Slurm does not begin job $job again; submit it once more with --resume-or-start" 1
  exit 1
}
[ -z "$requeue" ] || [ -z "$asked_early" ] || begin_again

# launch SECONDS PROGRAM INPUT ARGUMENT…: as `step` says. A process group of its own each: Ctrl-C reaches this script
# alone.
launch() {
  setsid "${step[@]}" bash "$root/scripts/lib/slurm_task.sh" "$folders" "$1" "$bin/$2" -- "${@:4}" <"$files/$3.tar" &
  pids+=($!)
}
for ((k = 0; k < shards; k++)); do
  place_of_shard "${shard_place[$k]}" "shard-$k"
  launch 0 paceline-server server --shard "$k" ${resume:+"$resume"}
done
for ((i = 0; i < nodes; i++)); do
  alone_at "${node_place[$i]}" "node-$i"
  # shellcheck disable=SC2206 # words
  step+=($srun)
  launch 5 paceline-worker "node-$i" --node "$i" ${resume:+--resume-or-start}
done
# SIGTERM has reached the daemons already, and is no second wish: Slurm sends it twice.
on_signals stop save
trap 'stop hangup' TERM
# shellcheck disable=SC2317 # called by a trap
save() { signal_daemon 0 USR2 || save_nothing; }
# shellcheck disable=SC2317 # called by a trap
stop_to_go_on() {
  [ -z "$will_go_on" ] || return 0
  will_go_on=yes
  note "stopping, for the job to be begun again"
  until signal_daemon 0 TERM; do # its step may be about to begin
    kill -0 "${pids[0]}" 2>/dev/null || return 0
    sleep 0.2
  done
}
will_go_on=''
[ -z "$requeue" ] || trap stop_to_go_on USR1 USR2

# Nodes give a server up that is gone by themselves, a while after 10 s; what they are told to end by comes 5 s late.
grace=15
attend
result=$?
pids=()
for status in "${statuses[@]}"; do [ "$status" -lt 128 ] || killed=yes; done
for n in "${!statuses[@]}"; do
  if [ "${statuses[$n]}" -ne 0 ] && [ "$result" -eq 0 ]; then
    note "$(name_of "$n") ended with status ${statuses[$n]} although the run succeeded; see the logs in $out"
  fi
done
[ ! "$out/summary.json" -nt "$files/run.yaml" ] || "$bin/paceline" report "$out"
[ "$result" -ne 0 ] || exit 0
if [ -n "$will_go_on" ] && [[ "$(run_status "$out")" != failed ]]; then begin_again; fi
# What is wrong with its usage, or with what is to be gone on with, is passed on from whichever daemon said it first.
case "$result,$early" in
  [2-5],*) ;;
  *,[2-5]) result=$early ;;
  *) fail "$(what_became_of "$out"); see $out/server.log" 1 ;;
esac
[ "$result" -ne 2 ] || [ -n "$resume" ] || forget_run "$out"
exit "$result"
