# Processes that a script starts in the background and answers for: whatever ends the script, they end too, and no
# status is lost to a signal. To be sourced.
# shellcheck shell=bash

# Waits until process $1 has ended, however often a trapped signal interrupts that, and returns its status.
wait_for() {
  wait "$1"
  while kill -0 "$1" 2>/dev/null; do wait "$1"; done
  wait "$1" # bash remembers it: the status of the process, not that of a wait cut short
}

# run_child COMMAND…: runs another script and returns its status. After `trap pass_on INT TERM` each of these signals
# reaches it as SIGTERM (a background process does not hear Ctrl-C), and `stopped` tells the caller to go no further.
child='' stopped=''
pass_on() {
  stopped=1
  [ -z "$child" ] || kill -TERM "$child" 2>/dev/null
}
run_child() {
  setpriv --pdeathsig TERM "$@" &
  child=$!
  [ -z "$stopped" ] || kill -TERM "$child" 2>/dev/null # it came before the child had a name
  wait_for "$child"
  local status=$?
  child=''
  return "$status"
}
