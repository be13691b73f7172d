# Run directories: what is in one, how its run ended, and what it is worth to a script that would make the same run. To be
# sourced.
# shellcheck shell=bash

# run_files RUN [-delete]: names, or removes, what a run leaves in its folder beside its config.yaml.
run_files() {
  find "$1" -maxdepth 1 -type f \( -name server.log -o -name 'server-[0-9]*.log' -o -name 'worker-[0-9]*.log' \
    -o -name curve.csv -o -name curve.csv.broken -o -name phases.csv -o -name phases_histogram.csv -o -name phases_so_far.csv \
    -o -name progress.csv -o -name staleness.csv -o -name summary.json -o -name model.bin -o -name 'events.out.tfevents.*' \
    -o -name trace.json -o -name trace-authority.json -o -name 'trace-shard-[0-9]*.json' -o -name 'trace-node-[0-9]*.json' \
    -o -name 'compute-slot-[0-9]*' \) "${@:2}"
  if [ -d "$1/checkpoint" ]; then find "$1/checkpoint" "${@:2}"; fi
}

# run_status RUN: ok, failed, stopped or invalid, as its summary says; empty when it has none. run_reason RUN: why.
run_status() { sed -n 's/^ *"status": *"\([a-z]*\)".*/\1/p' "$1/summary.json" 2>/dev/null; }
run_reason() {
  sed -n 's/^ *"reason": *"\(.*\)",$/\1/p' "$1/summary.json" 2>/dev/null | sed -e 's/\\\(["\\]\)/\1/g'
}

# ended_well RUN: whether it is one that no single --force replaces, as the daemons have it.
ended_well() { [ "$(run_status "$1")" = ok ]; }

# to_replace RUN: fills the array `replacing` with the words by which run_local.sh replaces a run that is to be made again:
# not one that ended well, but for one that lost nodes, which is of no use to a comparison.
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

# can_keep PACELINE RUN CONFIG [key.path=value …]: whether the run in the folder RUN succeeded with all its nodes and had
# the configuration that these arguments come to now; where it was written and where its daemons met do not count. If not,
# `why_not` says why (empty when there was no run). With keep_diverged=1 a run that failed because of what it learned, which
# a simulated one would do again, is kept like one that succeeded.
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
