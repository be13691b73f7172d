# What scripts say alike: what is wrong, what they are for, and how a command line is taken apart. To be sourced.
# shellcheck shell=bash

# fail MESSAGE [STATUS]: ends the script with a line on standard error; with status 2, wrong usage, where none is given.
fail() { echo "$(basename "$0" .sh): $1" >&2; exit "${2:-2}"; }

# programs_of ROOT: where the programs are: a checkout's release build, or, of an installed package, bin beside its
# share.
programs_of() {
  case "$1" in
    */share/paceline) echo "${1%/share/paceline}/bin" ;;
    *) echo "$1/build/release/bin" ;;
  esac
}

# workplace_of ROOT: where runs/ and data/ lie that nobody has named: in the checkout, or, of an installed package,
# where the user stands.
workplace_of() {
  case "$1" in
    */share/paceline) pwd ;;
    *) echo "$1" ;;
  esac
}

# read_arguments ACCEPTED… -- ARGUMENT…: takes a command line apart. What it accepts is
#   --force           a switch: sets the variable `force` to --force, so that it can be passed on as it is; `times` has
#                     how
#                     often it was given: ${times[--force]:-0}
#   "--out folder"    an option with a value: sets `out` to it. The second word is for messages; a number has to be one.
#   key=value         such words, which become the array `given`
#   words             all others, which become the array `words`
# An option's variable has _ for each - in its name; one that is not there leaves it alone. --help prints the comment
# that the script begins with, and ends it.
given=() words=()
declare -A times=()
read_arguments() {
  local accepted='' name
  local -A needs=()
  while [ "$1" != -- ]; do
    case "$1" in
      --*) name=${1%% *} && needs[$name]=${1#"$name"} ;;
      *) accepted+=" $1 " ;;
    esac
    shift
  done
  shift
  while [ $# -gt 0 ]; do
    case "$1" in
      -h | --help) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"; exit 0 ;;
      -*)
        [ -n "${needs[$1]+known}" ] || fail "unknown option '$1' (see --help)"
        times[$1]=$((${times[$1]:-0} + 1))
        name=${1#--} name=${name//-/_}
        if [ -n "${needs[$1]}" ]; then
          [ $# -ge 2 ] || fail "$1 needs a${needs[$1]}"
          [ "${needs[$1]}" != ' number' ] || [[ "$2" =~ ^[0-9]+$ ]] || fail "$1 needs a number, got '$2'"
          shift
        fi
        printf -v "$name" %s "$1"
        ;;
      *)
        if [[ "$1" == *=* && "$accepted" == *' key=value '* ]]; then
          given+=("$1")
        elif [[ "$accepted" == *' words '* ]]; then
          words+=("$1")
        else
          fail "unknown argument '$1' (see --help)"
        fi
        ;;
    esac
    shift
  done
}
