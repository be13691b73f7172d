# The daemons of one run, attended to from their start to the end of the last. To be sourced by the scripts that start
# a run. The script provides
#   pids              the processes to wait for: all servers, the authority first, then all nodes
#   shards            how many of them are servers
#   signal_daemon N SIGNAL     sends a signal to daemon N (TERM asks it to end in order, KILL ends it)
#   training_began    whether the run got that far
# shellcheck shell=bash disable=SC2154
. "$(dirname "${BASH_SOURCE[0]}")/signals.sh"

pids=()
statuses=()       # of the daemons that have ended, by their place in `pids`
early=''          # the status of the first daemon that failed before the training began
grace=5           # seconds that daemons have by themselves when the authority has ended

messages=2 # where to say something; `attend` sends bash's own remarks about daemons that were killed elsewhere
note() { print "$(basename "$0" .sh): $1" "$messages"; }

name_of() { if [ "$1" -lt "$shards" ]; then echo "server shard $1"; else echo "node $(($1 - shards))"; fi; }

signal_the_rest() {
  local n
  for n in "${!pids[@]}"; do [ -n "${statuses[$n]:-}" ] || signal_daemon "$n" "$1"; done
}
cut_off_the_rest() {
  local n
  for n in "${!pids[@]}"; do [ -n "${statuses[$n]:-}" ] || kill -KILL "${pids[$n]}" 2>/dev/null; done
}

# For `on_signals stop save`. The first: the authority ends the run in order, with final model and reports, and
# everybody else. The second: all daemons end at once. The third: so do the processes waited for, should they be others.
stop() {
  asks_to_stop "$@" || return 0
  case "$signals" in
    1) signal_daemon 0 TERM; note "stopping (again to end at once)" ;;
    2) signal_the_rest KILL ;;
    *) cut_off_the_rest ;;
  esac
}

# The authority says what becomes of it.
save() { signal_daemon 0 USR2; }

# Should the script end without having attended to them: as a stop does, and at once what is still there 20 s later.
end_daemons() {
  local waited n
  [ ${#pids[@]} -gt 0 ] || return 0
  signal_daemon 0 TERM
  for ((waited = 0; waited < 100; waited++)); do
    for n in "${!pids[@]}"; do
      if kill -0 "${pids[$n]}" 2>/dev/null; then sleep 0.2 && continue 2; fi
    done
    return 0
  done
  signal_the_rest KILL
  cut_off_the_rest
}

# Returns when all daemons have ended, with the authority's status. One that fails before the training began ends the
# run: the others would wait for it until cluster.start_timeout. They are ended at once, since there is nothing to keep
# and the failed one has said why. Daemons that outlive the authority get `grace` seconds (it may have told them that
# the run is over, or be gone without a word), are told to end, and then are ended.
attend() {
  local n status over='' step=0
  exec {messages}>&2
  while [ "${#statuses[@]}" -lt "${#pids[@]}" ]; do
    for n in "${!pids[@]}"; do
      if [ -n "${statuses[$n]:-}" ] || kill -0 "${pids[$n]}" 2>/dev/null; then continue; fi
      wait "${pids[$n]}"
      status=$?
      statuses[n]=$status
      if [ "$n" -eq 0 ]; then over=$SECONDS; fi
      if [ "$status" -ne 0 ] && [ "$signals" -eq 0 ] && [ -z "$early" ] && ! training_began; then
        early=$status grace=1 signals=2 over=$SECONDS
        case "$status" in
          [3-5]) ;; # of a resume, which has not failed: that there is none, and why, has been said
          *) note "$(name_of "$n") ended with status $status before the training began" ;;
        esac
        signal_the_rest KILL
      fi
    done
    if [ -n "$over" ] && [ $((SECONDS - over)) -gt $((grace * (step + 1))) ]; then
      step=$((step + 1))
      case "$step" in
        1) signal_the_rest TERM ;;
        2) signal_the_rest KILL ;;
        *) cut_off_the_rest ;;
      esac
    fi
    sleep 0.2 # not `wait -n`, which misses processes that have ended before it is called
  done 2>/dev/null
  return "${statuses[0]}"
}
