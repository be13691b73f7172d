# Processes that a script starts in the background and answers for: whatever ends the script, they end too, and no
# status is lost to a signal. To be sourced.
# shellcheck shell=bash
. "$(dirname "${BASH_SOURCE[0]}")/signals.sh"

# Waits until process $1 has ended, however often a trapped signal interrupts that, and returns its status.
wait_for() {
  wait "$1"
  while kill -0 "$1" 2>/dev/null; do wait "$1"; done
  wait "$1" # bash remembers it: the status of the process, not that of a wait cut short
}

# The ids of process $1 and of all that it has started, itself first.
tree_of() {
  local child
  echo "$1"
  # shellcheck disable=SC2013 # words, all on one line
  for child in $(cat "/proc/$1/task/"*/children 2>/dev/null); do tree_of "$child"; done
}

# Whether process $1 has not ended; one that nobody has waited for yet (a zombie) has.
is_running() { grep -qs '^State:[[:space:]]*[^ZX[:space:]]' "/proc/$1/status"; }

# run_whole COMMAND…: runs a command whose own children would not hear of its end (apt, ninja, ctest), and returns its
# status. After `on_signals end_whole` the first that asks for a stop ends all of them, and the script when they have
# ended; the second kills them. To be called as `run_whole … || exit`.
whole='' members=''
end_whole() {
  asks_to_stop "$@" || return 0
  [ -n "$whole" ] || return 0
  # shellcheck disable=SC2086 # one word for each process
  if [ "$signals" -eq 1 ]; then
    members=$(tree_of "$whole")
    kill -TERM $members 2>/dev/null || true # root's, under sudo, hear Ctrl-C itself, not this
    kill -CONT $members 2>/dev/null || true # one that is stopped hears of it now
    print "$(basename "$0" .sh): stopping (again to end at once)" || true
  else
    kill -KILL $members 2>/dev/null || true
  fi
}
run_whole() {
  local status member
  [ "$signals" -eq 0 ] || exit 1
  setpriv --pdeathsig TERM "$@" <&0 & # its input stays the terminal: sudo may ask
  whole=$!
  [ "$signals" -eq 0 ] || { signals=0 hung_up=''; end_whole; } # it came before the command had a name
  wait_for "$whole"
  status=$?
  for member in $members; do
    while is_running "$member"; do sleep 0.1; done
  done
  [ "$signals" -eq 0 ] || exit 1
  whole=''
  return "$status"
}

# run_child COMMAND…: runs another program and returns its status. After `on_signals pass_on pass_on_save` each signal
# that asks for a stop reaches it as SIGTERM (a background process does not hear Ctrl-C), and `stopped` tells the caller
# to go no further; one that asks for a checkpoint reaches it if it understands that.
# begin_child COMMAND… does not wait: `begun` is its id, and await_child ID its status, once for each.
children=() stopped='' begun=''
pass_on() {
  stopped=1
  asks_to_stop "$@" || return 0
  [ ${#children[@]} -eq 0 ] || kill -TERM "${children[@]}" 2>/dev/null
}
# shellcheck disable=SC2317 # called by a trap
pass_on_save() {
  local child
  for child in "${children[@]}"; do ask_to_save "$child" || true; done
}
begin_child() {
  setpriv --pdeathsig TERM "$@" &
  begun=$!
  children+=("$begun")
  [ -z "$stopped" ] || kill -TERM "$begun" 2>/dev/null # it came before the child had a name
}
await_child() {
  local status other others=()
  wait_for "$1"
  status=$?
  for other in "${children[@]}"; do [ "$other" = "$1" ] || others+=("$other"); done
  children=("${others[@]}")
  return "$status"
}
run_child() {
  begin_child "$@"
  await_child "$begun"
}
