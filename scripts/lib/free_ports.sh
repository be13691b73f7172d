#!/usr/bin/env bash
# Finds TCP ports of this host on which nobody listens.
#   free_ports.sh COUNT FIRST [INTERFACE]    prints "free_ports PORT…", and then "free_address ADDRESS" of the network
#                                            interface
# FIRST is the first that is tried; from 10000 to 29999, below those that systems take for connections.
set -uo pipefail
count=$1 port=$2
busy=" $(awk '$4 == "0A" { sub(/.*:/, "", $2); printf "%s ", $2 }' /proc/net/tcp /proc/net/tcp6 2>/dev/null)"
found=()
for ((tries = 0; tries < 20000 && ${#found[@]} < count; tries++)); do
  [[ "$busy" == *" $(printf %04X "$port") "* ]] || found+=("$port")
  # Far from the next one: that may be the first of a job that begins just now.
  port=$((10000 + (port - 10000 + 7919) % 20000))
done
[ ${#found[@]} -eq "$count" ] || { echo "free_ports: no port is free on $(hostname)" >&2; exit 1; }
echo "free_ports ${found[*]}"
[ -n "${3:-}" ] || exit 0
address=$(ip -o addr show dev "$3" scope global 2>/dev/null | awk '{ sub("/.*", "", $4); print $4; exit }')
[ -n "$address" ] || address=$(ip -o addr show dev "$3" 2>/dev/null | awk '{ sub("/.*", "", $4); print $4; exit }')
[ -n "$address" ] || { echo "free_ports: $(hostname) has no address at a network interface '$3'" >&2; exit 1; }
echo "free_address $address"
