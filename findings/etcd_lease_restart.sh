#!/usr/bin/env bash
# etcd: a server that restarts gives every lease its whole time again, so a dead worker is alive in the store for as long as restarts go on.
set -eu
tmp=$(mktemp -d)
server=
trap 'if [ -n "$server" ]; then kill "$server" || true; wait "$server" || true; fi; rm -rf "$tmp"' EXIT
cd "$tmp"
apt-get -qq -o APT::Sandbox::User=root download etcd-server=3.4.23-4+b4 etcd-client=3.4.23-4+b4
for package in *.deb; do dpkg-deb -x "$package" .; done
read -r client peer < <(python3 -c '
import socket
sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
print(*(s.getsockname()[1] for s in sockets))')
client=http://127.0.0.1:$client peer=http://127.0.0.1:$peer
export ETCDCTL_API=3 ETCDCTL_ENDPOINTS=$client
start() {
    usr/bin/etcd --data-dir data --listen-client-urls "$client" --advertise-client-urls "$client" --listen-peer-urls "$peer" \
        --initial-advertise-peer-urls "$peer" --initial-cluster "default=$peer" "$@" >>log 2>&1 &
    server=$!
    until usr/bin/etcdctl endpoint health >/dev/null 2>&1; do
        kill -0 "$server" || { cat log; exit 1; }
        sleep 0.1
    done
}
stop() { kill "$server"; wait "$server" || true; server=; }
remaining() { usr/bin/etcdctl lease timetolive "$1" | sed -n 's/.*remaining(\(-\{0,1\}[0-9]*\)s).*/\1/p'; }
TTL=12 ROUNDS=3

usr/bin/etcdctl version | head -1
echo "guess: a lease of $TTL s that nobody renews ends $TTL s later; a restart does not help it, and its key is then gone"
start
lease=$(usr/bin/etcdctl lease grant $TTL | awk '{print $2}')
usr/bin/etcdctl put --lease "$lease" worker/3 alive >/dev/null
begin=$SECONDS renewed=0
for round in $(seq $ROUNDS); do
    sleep 7
    before=$(remaining "$lease")
    stop
    start
    after=$(remaining "$lease")
    echo "restart $round, $((SECONDS - begin)) s after the grant: $before s left before, $after s behind"
    if [ "${before:-99}" -le 6 ] && [ "${after:-0}" -ge 9 ]; then renewed=$((renewed + 1)); fi
done
echo "after $((SECONDS - begin)) s the key says: $(usr/bin/etcdctl get --print-value-only worker/3)"
value=$(usr/bin/etcdctl get --print-value-only worker/3)
if [ $renewed -eq $ROUNDS ] && [ "$value" = alive ] && [ $((SECONDS - begin)) -gt $((TTL + 6)) ]; then
    echo "as found: nobody renewed the lease, and it outlives its time"
else
    echo "CHANGED"
    exit 1
fi
