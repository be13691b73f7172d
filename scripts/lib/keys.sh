# Keys for one run, of which each daemon gets its part. To be sourced by the scripts that start a run on several
# machines. shellcheck shell=bash

# wants_new_keys PACELINE CONFIG [key.path=value …]: whether a run is protected by keys that are made for it: where its
# configuration names none and does not do without. Fails where the configuration is refused. The answer is in
# `new_keys`.
new_keys=''
wants_new_keys() {
  local named insecure
  # Asked of one that listens nowhere: as it is it may need keys to be one.
  peek() {
    "${@:2}" cluster.shards=1 cluster.replicas=1 'cluster.etcd=[]' 'cluster.endpoints=["ipc://nowhere"]' --get "$1"
  }
  named=$(peek security.keys "$1" check-config "${@:2}") &&
    insecure=$(peek security.allow_insecure "$1" check-config "${@:2}") || return
  # shellcheck disable=SC2034 # the script's
  if [ "$named" = null ] && [ "$insecure" = false ]; then new_keys=yes; fi
}

# keys_of_server NODES, keys_of_node I: the files that one of them needs.
keys_of_server() {
  local i
  echo server.key
  for ((i = 0; i < $1; i++)); do echo "node-$i.pub"; done
}
keys_of_node() { printf '%s\n' "node-$1.key" server.pub; }
