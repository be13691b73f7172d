# What a Slurm job has been given, read from its environment: hosts, tasks and processors. To be sourced.
#
#     SLURM_JOB_NODELIST=tux[1-2],big  SLURM_TASKS_PER_NODE=2(x2),1  SLURM_CPUS_PER_TASK=4
#
# is five places for a daemon, of 4 processors each: two on tux1, two on tux2 and one on big. A heterogeneous job has
# such variables for each of its components, with _HET_GROUP_0, _HET_GROUP_1 … after their names; its places follow one
# another. shellcheck shell=bash

# expand_hosts LIST: one host to a line, in order, as `scontrol show hostnames` has them: tux[0-2,07],a[0-1].b[0-1].
expand_hosts() {
  local list=$1 item='' depth=0 i c
  for ((i = 0; i < ${#list}; i++)); do # a comma within brackets separates numbers, not hosts
    c=${list:i:1}
    case "$c" in
      '[') depth=1 ;;
      ']') depth=0 ;;
      ,)
        if [ "$depth" -eq 0 ]; then
          expand_brackets "$item"
          item=''
          continue
        fi
        ;;
    esac
    item+=$c
  done
  [ -z "$item" ] || expand_brackets "$item"
}
# expand_brackets HOST: the first pair of brackets replaced by each of its numbers, with the digits that the first has.
expand_brackets() {
  local before rest ranges range first last number
  if [[ "$1" != *'['* ]]; then
    echo "$1"
    return
  fi
  before=${1%%'['*} rest=${1#*'['}
  IFS=, read -ra ranges <<<"${rest%%']'*}"
  rest=${rest#*']'}
  for range in "${ranges[@]}"; do
    first=${range%-*} last=${range#*-}
    for ((number = 10#$first; number <= 10#$last; number++)); do
      expand_brackets "$before$(printf "%0${#first}d" "$number")$rest"
    done
  done
}

# expand_counts LIST: one number to a line: 2(x3),1 is 2 2 2 1.
expand_counts() {
  local items item times
  IFS=, read -ra items <<<"$1"
  for item in "${items[@]}"; do
    times=1
    [[ "$item" != *'(x'* ]] || { times=${item#*'(x'} times=${times%')'}; }
    for (( ; times > 0; times--)); do echo "${item%%'('*}"; done
  done
}

# read_allocation: fills these arrays, an element for each task that the job may run, in the order of its hosts.
#   place_host    the host
#   place_group   the component of a heterogeneous job, empty in any other
#   place_cpus    the processors of a task there
read_allocation() {
  local group=0
  place_host=() place_group=() place_cpus=()
  if [ "${SLURM_HET_SIZE:-1}" -le 1 ]; then
    read_component '' ''
    return
  fi
  for (( ; group < SLURM_HET_SIZE; group++)); do read_component "_HET_GROUP_$group" "$group"; done
}
# read_component SUFFIX GROUP
read_component() {
  local hosts=() tasks=() on_host=() of_task n t name
  name=SLURM_JOB_NODELIST$1
  [ -n "${!name:-}" ] || return 0
  mapfile -t hosts <<<"$(expand_hosts "${!name}")"
  name=SLURM_TASKS_PER_NODE$1 && mapfile -t tasks <<<"$(expand_counts "${!name:-1}")"
  name=SLURM_JOB_CPUS_PER_NODE$1 && mapfile -t on_host <<<"$(expand_counts "${!name:-1}")"
  name=SLURM_CPUS_PER_TASK$1 && of_task=${!name:-}
  for ((n = 0; n < ${#hosts[@]}; n++)); do
    for ((t = 0; t < ${tasks[$n]:-1}; t++)); do
      place_host+=("${hosts[$n]}") place_group+=("$2")
      place_cpus+=("${of_task:-$((${on_host[$n]:-1} / ${tasks[$n]:-1}))}")
    done
  done
}

# place_daemons SHARDS NODES_MIN NODES_MAX: which place each daemon has: the arrays `shard_place` and `node_place`; and
# `shards_apart`, set where no shard shares its place. With a task for each daemon the shards have the first ones, and
# as many nodes as there may be the rest; with fewer the nodes have all, and the shards lie beside them, spread over the
# hosts. Fails where there are fewer tasks than a run needs nodes.
place_daemons() {
  local shards=$1 minimum=$2 nodes=$3 places=${#place_host[@]} place k
  local -A seen=()
  local first_places=() # of each host
  shard_place=() node_place=() shards_apart=''
  [ "$places" -ge "$minimum" ] || return 1
  if [ "$places" -ge $((nodes + shards)) ] || { [ "$minimum" -lt "$nodes" ] && [ "$places" -ge $((minimum + shards)) ]; }; then
    shards_apart=yes
    for ((k = 0; k < shards; k++)); do shard_place+=("$k"); done
  else
    for ((place = 0; place < places && place < nodes; place++)); do
      [ -n "${seen[${place_host[$place]}]:-}" ] || first_places+=("$place")
      seen[${place_host[$place]}]=yes
    done
    for ((k = 0; k < shards; k++)); do shard_place+=("${first_places[$((k % ${#first_places[@]}))]}"); done
  fi
  for ((place = ${shards_apart:+$shards} + 0; place < places && ${#node_place[@]} < nodes; place++)); do node_place+=("$place"); done
}

# address_of HOST: where Slurm itself reaches it, which is where other hosts do; its name where nobody says.
address_of() {
  local address
  address=$(scontrol show node "$1" 2>/dev/null | sed -n 's/.*NodeAddr=\([^ ]*\).*/\1/p' | head -n 1)
  echo "${address:-$1}"
}
