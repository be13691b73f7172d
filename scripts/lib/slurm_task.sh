#!/usr/bin/env bash
# What runs in a step of scripts/run_slurm.sh, on the host that it is for:
#   slurm_task.sh NAME SECONDS PROGRAM… -- ARGUMENT… <FILES
# It runs PROGRAM… run.yaml ARGUMENT…; FILES is a tar archive with run.yaml and keys/, which lie in a new folder
# NAME.XXXXXX of this host's own for as long as the program runs. Who kills the step removes it.
#
# Slurm sends a signal to all processes of a step. At the end of a job it is SIGTERM, twice where time runs out, which
# would ask a daemon to end at once; so the daemon does not hear it, and is asked by SIGHUP instead. A node is asked
# SECONDS later: by then the server, which has heard of it at the same time, has ended the run in order; that step alone
# may be meant, too. A server saves a checkpoint on SIGUSR2 alone; here SIGUSR1 is passed on to it as that.
set -uo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/processes.sh"
. "$(dirname "${BASH_SOURCE[0]}")/yaml.sh"

fail() { echo "slurm_task: $1 on $(hostname)" >&2; exit 1; }
folder=$(umask 077 && mktemp -d -t "$1.XXXXXX") || fail "cannot create a folder for temporary files"
trap 'rm -rf "$folder"' EXIT
tar -xf - --no-same-owner -C "$folder" || fail "cannot unpack the configuration"
patience=$2 command=()
shift 2
while [ "$1" != -- ]; do command+=("$1") && shift; done
command+=("$folder/run.yaml")
[ ! -d "$folder/keys" ] || command+=("security.keys=$(yaml_string "$folder/keys")")
command+=("${@:2}")

trap '' TERM USR1 USR2 # the daemon's from its first moment
"${command[@]}" </dev/null &
daemon=$!
# shellcheck disable=SC2317 # called by a trap
stop_it() {
  trap '' TERM
  (
    for ((waited = 0; waited < 10 * patience; waited++)); do { kill -0 "$daemon" 2>/dev/null && sleep 0.1; } || exit; done
    kill -s HUP "$daemon" 2>/dev/null
  ) &
}
trap stop_it TERM
trap 'ask_to_save "$daemon" || true' USR1
trap : INT HUP USR2 # it has heard them itself
wait_for "$daemon"
