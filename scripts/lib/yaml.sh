# Values for the command line's key.path=value, which is read as YAML. To be sourced.
# shellcheck shell=bash

# yaml_string TEXT: the YAML string that means exactly TEXT, whatever is in it ("null", "a: b", "x #2").
yaml_string() {
  local text=${1//\\/\\\\}
  text=${text//\"/\\\"}
  printf '"%s"' "${text//$'\n'/\\n}"
}

# node_counts NODES: of cluster.nodes, 4 or {min: 2, max: 8}, how many a run needs and how many it takes: $nodes_min,
# $nodes_max. shellcheck disable=SC2034
node_counts() {
  nodes_min=${1##*min: } nodes_min=${nodes_min%%,*}
  nodes_max=${1##*max: } nodes_max=${nodes_max%\}}
}
