# What took longest of a build and of its tests. To be sourced.
# shellcheck shell=bash

# slowest_builds NINJA_LOG SINCE: seconds and output of the ten longest commands that ended at SINCE (seconds since
# 1970) or later.
slowest_builds() {
  [ -f "$1" ] || return 0
  awk -F '\t' -v since="$2" 'NR > 1 && $3 / 1e9 >= since { printf "%7.1f  %s\n", ($2 - $1) / 1000, $4 }' "$1" |
    sort -rn | sed -n 1,10p
}

# slowest_tests JUNIT: seconds and name of the ten longest tests of a file that ctest wrote.
slowest_tests() {
  [ -f "$1" ] || return 0
  sed -nE 's/.*<testcase name="([^"]*)".* time="([0-9.]+)".*/\2 \1/p' "$1" | sort -rn |
    awk 'NR <= 10 { printf "%7.1f  %s\n", $1, $2 }'
}
