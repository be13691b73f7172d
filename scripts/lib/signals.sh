# What signals mean to a script. To be sourced.
#   INT, TERM    stop in order; the second time: at once
#   HUP          stop in order. It never counts as the second time: a terminal that closes may send several. Where it is
#                ignored (nohup) it stays ignored
#   USR1, USR2   save a checkpoint of the run that goes, and go on: what a batch system sends before a time limit
#   PIPE         nobody reads what is printed: go on
# shellcheck shell=bash

# on_signals STOP [SAVE]: STOP is called for INT and TERM, and as `STOP hangup` for HUP; SAVE for USR1 and USR2.
on_signals() {
  # shellcheck disable=SC2064 # they are known now
  trap "$1" INT TERM
  # shellcheck disable=SC2064
  trap "$1 hangup" HUP
  # shellcheck disable=SC2064
  trap "${2:-:}" USR1 USR2
  trap : PIPE
}

# asks_to_stop [hangup]: to be called by STOP with its argument. Whether that is news; then `signals` says how often: 1
# in order, 2 at once.
signals=0 hung_up=''
asks_to_stop() {
  if [ "${1:-}" = hangup ]; then
    [ "$signals" -eq 0 ] || return 1
    signals=1 hung_up=1
  elif [ -n "$hung_up" ]; then
    hung_up=''
    return 1
  else
    signals=$((signals + 1))
  fi
}

# catches PID SIGNAL: whether process PID has a handler for signal number SIGNAL; any other would be ended by it.
catches() {
  local mask
  mask=$(sed -n 's/^SigCgt:[[:space:]]*//p' "/proc/$1/status" 2>/dev/null)
  [ -n "$mask" ] && [ $((16#$mask >> ($2 - 1) & 1)) -eq 1 ]
}
# ask_to_save PID: USR2, which means that to the servers and to our scripts. Whether PID heard it.
usr2=$(kill -l USR2)
ask_to_save() { catches "$1" "$usr2" && kill -s USR2 "$1" 2>/dev/null; }

# print TEXT [DESCRIPTOR]: a line, on standard error if not said. Waits a second at most for somebody to take it.
print() { timeout --foreground 1 printf '%s\n' "$1" >&"${2:-2}" 2>/dev/null; }
