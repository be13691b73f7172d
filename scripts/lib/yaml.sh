# Values for the command line's key.path=value, which is read as YAML. To be sourced.
# shellcheck shell=bash

# yaml_string TEXT: the YAML string that means exactly TEXT, whatever is in it ("null", "a: b", "x #2").
yaml_string() {
  local text=${1//\\/\\\\}
  text=${text//\"/\\\"}
  printf '"%s"' "${text//$'\n'/\\n}"
}
