# Run directories: what is in one, how its run ended, and what it is worth to a script that would make the same run. To
# be sourced.
# shellcheck shell=bash

# run_files RUN [-delete]: names, or removes, what a run leaves in its folder beside its config.yaml.
run_files() {
  local saved
  find "$1" -maxdepth 1 -type f \( -name server.log -o -name 'server-[0-9]*.log' -o -name 'worker-[0-9]*.log' \
    -o -name curve.csv -o -name curve.csv.broken -o -name phases.csv -o -name phases_histogram.csv -o -name phases_so_far.csv \
    -o -name progress.csv -o -name staleness.csv -o -name summary.json -o -name model.bin -o -name 'events.out.tfevents.*' \
    -o -name trace.json -o -name trace-authority.json -o -name 'trace-shard-[0-9]*.json' -o -name 'trace-node-[0-9]*.json' \
    -o -name 'compute-slot-[0-9]*' -o -name 'algorithms-node[0-9]*.txt' \) "${@:2}"
  for saved in checkpoint inner_state; do
    if [ -d "$1/$saved" ]; then find "$1/$saved" "${@:2}"; fi
  done
}

# run_status RUN: ok, failed, stopped or invalid, as its summary says; empty when it has none. run_reason RUN: why.
run_status() { sed -n 's/^ *"status": *"\([a-z]*\)".*/\1/p' "$1/summary.json" 2>/dev/null; }
run_reason() {
  sed -n 's/^ *"reason": *"\(.*\)",$/\1/p' "$1/summary.json" 2>/dev/null | sed -e 's/\\\(["\\]\)/\1/g'
}

# what_became_of RUN: of one that did not end well, in words.
what_became_of() {
  local why
  why=$(run_reason "$1")
  case "$(run_status "$1")" in
    invalid) echo "the run is invalid: $why" ;;
    stopped) echo "the run was stopped${why:+: $why}" ;;
    failed) echo "the run failed${why:+: $why}" ;;
    *) echo "the run failed or was stopped" ;;
  esac
}

# ended_well RUN: whether it is one that no single --force replaces, as the daemons have it.
ended_well() { [ "$(run_status "$1")" = ok ]; }

# held_log RUN: the log that a daemon holds which is still alive; a log that is deleted would no longer keep others out.
held_log() {
  local log
  for log in "$1"/server.log "$1"/server-*.log "$1"/worker-*.log; do
    if [ -e "$log" ]; then
      flock -n -E 99 "$log" true # 99: not flock's or the system's
      if [ $? -eq 99 ]; then
        echo "${log##*/}"
        return
      fi
    fi
  done
}

# clear_run RUN OPTION: for a run that is begun in the folder RUN, what an earlier one left there goes, if --force was
# given (`force` and `times`, of arguments.sh); else, or where that would be too much, the script fails. OPTION: how to
# say another.
clear_run() {
  local log
  log=$(held_log "$1")
  [ -z "$log" ] || fail "$1 holds a run that is still alive ($log is locked); end it first, or give another $2"
  [ -n "$(run_files "$1")" ] || return 0
  [ -n "$force" ] || fail "$1 holds an earlier run; give another $2, or --force to replace it"
  # shellcheck disable=SC2154
  ! ended_well "$1" || [ "${times[--force]}" -ge 2 ] ||
    fail "$1 holds a run that ended well; give another $2, or --force twice to replace it"
  # The server clears the folder, too, but may die before that: then an earlier run's log would tell of this one's
  # training, its summary would be printed as this one's, and its model would lie beside a config.yaml not its own.
  run_files "$1" -delete || fail "cannot clear $1" 1
}

# made_for RUN: what a run that is begun in the folder RUN will have made there, in `made`. To be asked before.
# forget_run RUN: of a run that was never one, since its usage was wrong, nothing is kept, so that the corrected command
# is not refused.
made=''
made_for() {
  made=''
  [ -d "$1" ] || made=folder
  [ -e "$1/config.yaml" ] || made="$made config"
}
forget_run() {
  [ -z "$(held_log "$1")" ] || return 0 # it is another's by now
  run_files "$1" -delete
  case "$made" in *config) rm -f "$1/config.yaml" ;; esac
  case "$made" in folder*) rmdir "$1" 2>/dev/null ;; esac
}

# to_go_on: the condition, for a shell in a run directory, of what --resume-or-start comes to for all daemons: true
# where there is something to go on from, or a run that ended well, or with a model alone, and is told so; else a run is
# begun. One decision for all, or the authority would begin where another shard, whose part of a checkpoint was written,
# goes on. shellcheck disable=SC2034
to_go_on='{ ls checkpoint/*/manifest >/dev/null 2>&1 || grep -qs "^ *\"status\": *\"ok\"" summary.json ||
  { [ -e model.bin ] && grep -qs "^ *\"iterations\": *[1-9]" summary.json; }; }'

# to_replace RUN: fills the array `replacing` with the words by which run_local.sh replaces a run that is to be made
# again: not one that ended well, but for one that lost nodes, which is of no use to a comparison.
replacing=()
to_replace() {
  replacing=(--force)
  [ -z "$(lost_nodes "$1")" ] || replacing+=(--force)
}

# has_diverged RUN: whether it failed since a gradient was not finite (train.on_nan: stop).
has_diverged() { [ "$(run_status "$1")" = failed ] && [[ "$(run_reason "$1")" == *": not finite: "* ]]; }

# lost_nodes RUN: "1 node" or "4 nodes" where the run in the folder RUN lost some, empty where it did not. It went on
# with the others, so its status does not say so; but its learning and its times are those of a smaller cluster.
lost_nodes() {
  sed -n -e 's/^ *"lost_nodes": *1,\{0,1\}$/1 node/p' \
    -e 's/^ *"lost_nodes": *\([1-9][0-9]*\),\{0,1\}$/\1 nodes/p' "$1/summary.json" 2>/dev/null
}

# can_keep PACELINE RUN CONFIG [key.path=value …]: whether the run in the folder RUN succeeded with all its nodes and
# had the configuration that these arguments come to now; where it was written and where its daemons met do not count.
# If not, `why_not` says why (empty when there was no run). With keep_diverged=1 a run that failed because of what it
# learned, which a simulated one would do again, is kept like one that succeeded.
why_not='' keep_diverged=''
can_keep() {
  local paceline=$1 run=$2 status lost now before
  shift 2
  why_not=''
  [ -e "$run/config.yaml" ] || return 1
  status=$(run_status "$run")
  if [ "$status" != ok ] && ! { [ -n "$keep_diverged" ] && has_diverged "$run"; }; then
    why_not="it did not succeed (${status:-it has no summary.json})"
    return 1
  fi
  lost=$(lost_nodes "$run")
  if [ -n "$lost" ]; then
    why_not="it lost $lost"
    return 1
  fi
  comparable() { # a run has the whole path of its data, whatever the configuration says
    local text data
    text=$("$paceline" check-config "$@" --print 2>/dev/null) || return
    data=$("$paceline" check-config "$@" --get data.path) || return
    sed -e '/^#/d' -e '/^  \(out\|endpoints\|path\): /d' <<<"$text"
    printf '  path: %s\n' "$(realpath -sm "$data")"
  }
  now=$(comparable "$@")
  if [ -z "$now" ]; then
    why_not="its configuration is refused now"
    return 1
  fi
  before=$(comparable "$run/config.yaml")
  [ "$now" != "$before" ] || return 0
  if [ -z "$before" ]; then
    why_not="its config.yaml is not a configuration now"
  else
    why_not=$(diff /dev/fd/3 /dev/fd/4 3<<<"$before" 4<<<"$now" |
      sed -n -e 's/^< *\(.*\)/had \1/p' -e 's/^> *\(.*\)/now \1/p' | head -n 4 | paste -sd ';' | sed 's/;/; /g')
    why_not="its configuration was another: $why_not"
  fi
  return 1
}
