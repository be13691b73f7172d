# What a run directory is worth to a script that would make the same run. To be sourced.
# shellcheck shell=bash

# lost_nodes RUN: "1 node" or "4 nodes" where the run in the folder RUN lost some, empty where it did not. It went on
# with the others, so its status does not say so; but its learning and its times are those of a smaller cluster.
lost_nodes() {
  sed -n -e 's/^ *"lost_nodes": *1,\{0,1\}$/1 node/p' \
    -e 's/^ *"lost_nodes": *\([1-9][0-9]*\),\{0,1\}$/\1 nodes/p' "$1/summary.json" 2>/dev/null
}

# can_keep PACELINE RUN CONFIG [key.path=value …]: whether the run in the folder RUN succeeded with all its nodes and had
# the configuration that these arguments come to now; where it was written and where its daemons met do not count. If not, `why_not` says
# why (empty when there was no run).
why_not=''
can_keep() {
  local paceline=$1 run=$2 status lost now before
  shift 2
  why_not=''
  [ -e "$run/config.yaml" ] || return 1
  status=$(sed -n 's/^ *"status": *"\([a-z]*\)".*/\1/p' "$run/summary.json" 2>/dev/null)
  if [ "$status" != ok ]; then
    why_not="it did not succeed (${status:-it has no summary.json})"
    return 1
  fi
  lost=$(lost_nodes "$run")
  if [ -n "$lost" ]; then
    why_not="it lost $lost"
    return 1
  fi
  comparable() { "$paceline" check-config "$@" --print 2>/dev/null | sed -e '/^#/d' -e '/^  out: /d' -e '/^  endpoints: /d'; }
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
