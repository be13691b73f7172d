#!/usr/bin/env bash
# The experiment of the DTSSP paper (Kim and Rhee 2019) beside its published figures (docs/EXPERIMENTS.md): learning time
# (Table 1) and where it goes (Fig. 9, 10) of BSP, SSP(3) and DTSSP, and of SSP(10), a random walk in [3, 10] and ASP, with
# 4 nodes x 1, 2, 4 threads; the threshold's path; what the result owes to the cluster that is assumed; and accuracies
# (Table 2) of training runs that are cut to the budget. The cluster is that of configs/dtssp_paper.yaml.
#   scripts/reproduce_dtssp.sh [--out DIR] [--bin DIR] [--seeds N] [--iterations N] [--sweep-iterations N]
#                              [--training-iterations N] [PART …]
#     PART   table1, sweep, table2; all when none is named
#     --seeds N   1 to N, the same for every policy (default 5; fewer give figures and no verdict)
#     --iterations N   of the simulated Table 1 (default 100000, the paper's); --sweep-iterations of the sweep (20000)
#     --training-iterations N   to which Table 2's runs are cut (default 1024)
#   scripts/reproduce_dtssp.sh --full CIFAR10_DIR [--out DIR] [--bin DIR] [POLICY:THREADS:SEED …]
#     trains all 100,000 iterations of the named cells on CIFAR-10 (POLICY: bsp, ssp3, dtssp, ssp10, walk; all with
#     threads 1, 2, 4 and seeds 1 to 5 when none is named: many days), and compares those that are finished
# Resumable: a run that succeeded with the configuration it would have now is kept.
# Ctrl-C or SIGTERM stops the run in order. Exit status: 0 all runs succeeded, 1 some did not, 2 wrong usage.
set -uo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
. "$root/scripts/lib/processes.sh"
. "$root/scripts/lib/runs.sh"
. "$root/scripts/lib/yaml.sh"
fail() { echo "reproduce_dtssp: $1" >&2; exit "${2:-2}"; }

out="$root/runs/dtssp" bin="$root/build/release/bin" config="$root/configs/dtssp_paper.yaml"
seeds=5 iterations=100000 sweep_iterations=20000 training_iterations=1024 cifar='' parts=() cells=()
number() { [[ "$2" =~ ^[0-9]+$ ]] || fail "$1 needs a number, got '$2'"; }
while [ $# -gt 0 ]; do
  case "$1" in
    -h | --help) sed -n '2,18s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; exit 0 ;;
    --out | --bin | --full | --seeds | --iterations | --sweep-iterations | --training-iterations)
      [ $# -ge 2 ] || fail "$1 needs a value (see --help)"
      case "$1" in
        --out) out=$2 ;;
        --bin) bin=$2 ;;
        --full) cifar=$2 ;;
        --seeds) number "$1" "$2"; seeds=$2 ;;
        --iterations) number "$1" "$2"; iterations=$2 ;;
        --sweep-iterations) number "$1" "$2"; sweep_iterations=$2 ;;
        --training-iterations) number "$1" "$2"; training_iterations=$2 ;;
      esac
      shift
      ;;
    -*) fail "unknown option '$1' (see --help)" ;;
    *:*:*) cells+=("$1") ;;
    table1 | sweep | table2) parts+=("$1") ;;
    *) fail "no part '$1' (see --help)" ;;
  esac
  shift
done
[ -x "$bin/paceline" ] || fail "$bin/paceline is not there; build it with scripts/build.sh"
[ ${#cells[@]} -eq 0 ] || [ -n "$cifar" ] || fail "cells go with --full (see --help)"
[ -z "$cifar" ] || [ -e "$cifar/test_batch.bin" ] || fail "no CIFAR-10 in '$cifar' (its binary format; see --help)"
[ "$seeds" -ge 1 ] || fail "--seeds needs 1 or more"
[ ${#parts[@]} -gt 0 ] || parts=(table1 sweep table2)
mkdir -p "$out" || fail "cannot create $out" 1
trap pass_on INT TERM
failed=0

# What a policy changes in configs/dtssp_paper.yaml. ASP cannot leave its parameters unread (docs/SYNC.md).
overrides_of() {
  local fixed="sync.threshold_min=null sync.threshold_max=null"
  case "$1" in
    bsp) echo "sync.policy=bsp sync.threshold=null $fixed" ;;
    ssp3) echo "sync.policy=ssp sync.threshold=3 $fixed" ;;
    ssp10) echo "sync.policy=ssp sync.threshold=10 $fixed" ;;
    dtssp) echo "sync.policy=dtssp" ;;
    walk) echo "sync.policy=random_walk" ;;
    asp) echo "sync.policy=asp sync.threshold=null $fixed sync.apply=eager sync.refresh_clocks=1" ;;
    *) return 1 ;;
  esac
}

# simulated RUN [key.path=value …]: makes it, unless it is there. 1: it did not succeed.
simulated() {
  local run=$1
  shift
  ! can_keep "$bin/paceline" "$run" "$config" "$@" || return 0
  run_child "$bin/paceline" simulate "$config" --out "$run" --force "$@" >"$run.log" 2>&1 && return 0
  [ -z "$stopped" ] || fail "stopped; the same command goes on with $run" 1
  echo "reproduce_dtssp: $run failed: $(tail -n 1 "$run.log")" >&2
  failed=1
  return 1
}

# compared NAME RUN…: what may be said of these runs, in $out/NAME.json.
compared() {
  local name=$1
  shift
  if [ $# -eq 0 ] || ! "$bin/paceline" report --compare --json "$@" >"$out/$name.json"; then
    failed=1
    rm -f "$out/$name.json"
  fi
}
tables() { python3 "$root/scripts/lib/dtssp_tables.py" "$@" || failed=1; }

table1() {
  local refresh threads policy seed run runs overrides
  for refresh in null 1; do
    for threads in 1 2 4; do
      echo "reproduce_dtssp: table 1, refresh_clocks $refresh, 4 x $threads workers, $seeds seeds" >&2
      runs=()
      mkdir -p "$out/table1/$refresh-$threads"
      for policy in bsp ssp3 dtssp ssp10 walk asp; do
        read -ra overrides <<<"sync.refresh_clocks=$refresh $(overrides_of "$policy")"
        for ((seed = 1; seed <= seeds; seed++)); do
          run="$out/table1/$refresh-$threads/$policy-$seed"
          simulated "$run" "cluster.threads_per_node=$threads" "train.total_iterations=$iterations" \
            "run.seed=$seed" "${overrides[@]}" && runs+=("$run")
        done
      done
      compared "table1-$refresh-$threads" "${runs[@]}"
    done
  done
  tables table1 "$out"
}

# One assumption at a time is another one, of 16 workers.
sweep_points() {
  echo "as-assumed"
  echo "equal-speeds simulate.compute.slowdown=[1,1,1,1]"
  echo "one-node-three-times-slower simulate.compute.slowdown=[1,1,1,3]"
  echo "no-jitter simulate.compute.distribution=constant"
  echo "equal-speeds-no-jitter simulate.compute.slowdown=[1,1,1,1] simulate.compute.distribution=constant"
  echo "jitter-0.6 simulate.compute.cv=0.6"
  echo "pareto-2.5 simulate.compute.distribution=pareto simulate.compute.shape=2.5"
  echo "slow-periods simulate.compute.slow_share=0.1 simulate.compute.slow_factor=3 simulate.compute.slow_length=2s"
  echo "1-gbit simulate.network.bandwidth=119MiB simulate.network.server_bandwidth=119MiB"
  echo "free-network simulate.network.bandwidth=null simulate.network.server_bandwidth=null simulate.network.latency=0ns"
  echo "learns-10-times-slower simulate.metric.half_samples=1000000"
}
sweep() {
  local point policy seed run runs overrides changes names=()
  while read -ra point; do
    echo "reproduce_dtssp: sweep, ${point[0]}" >&2
    names+=("${point[0]}")
    changes=("${point[@]:1}")
    runs=()
    mkdir -p "$out/sweep/${point[0]}"
    for policy in bsp ssp3 dtssp ssp10 walk asp; do
      read -ra overrides <<<"$(overrides_of "$policy")"
      for ((seed = 1; seed <= seeds; seed++)); do
        run="$out/sweep/${point[0]}/$policy-$seed"
        simulated "$run" "train.total_iterations=$sweep_iterations" "run.seed=$seed" "${overrides[@]}" "${changes[@]}" &&
          runs+=("$run")
      done
    done
    compared "sweep-${point[0]}" "${runs[@]}"
  done < <(sweep_points)
  tables sweep "$out" "${names[@]}"
}

# How training runs are made: gradients that are computed, in the virtual time of the assumed cluster.
training=(simulate.mode=training simulate.metric.final_accuracy=null)

# Table 2 as far as the budget goes: a small network on generated data, mini-batches of 16, and windows short enough for
# DTSSP to have some. Seed by seed, so that whole pairs are there as soon as they can be.
table2() {
  local threads policy seed run runs overrides data
  data="$out/data"
  if [ ! -e "$data/test_batch.bin" ]; then
    run_child "$bin/paceline" data synthesize --out "$data" >&2 || fail "no data in $data" 1
  fi
  for threads in 1 2 4; do
    echo "reproduce_dtssp: table 2, cut to $training_iterations iterations, 4 x $threads workers, $seeds seeds" >&2
    runs=()
    mkdir -p "$out/table2/$threads"
    for ((seed = 1; seed <= seeds; seed++)); do
      for policy in bsp ssp3 dtssp; do
        read -ra overrides <<<"$(overrides_of "$policy")"
        run="$out/table2/$threads/$policy-$seed"
        simulated "$run" "cluster.threads_per_node=$threads" "run.seed=$seed" "data.path=$(yaml_string "$data")" \
          train.model=cifar_cnn_small train.batch_size=16 sync.lpr.window_clocks=8 \
          "train.total_iterations=$training_iterations" "${training[@]}" "${overrides[@]}" && runs+=("$run")
      done
    done
    compared "table2-$threads" "${runs[@]}"
  done
  tables table2 "$out"
}

# The whole experiment, cell by cell: what is finished is compared, whoever ran it and when.
full() {
  local cell policy threads seed run overrides
  if [ ${#cells[@]} -eq 0 ]; then
    for ((seed = 1; seed <= seeds; seed++)); do
      for threads in 4 2 1; do
        for policy in bsp ssp3 dtssp ssp10 walk; do cells+=("$policy:$threads:$seed"); done
      done
    done
  fi
  for cell in "${cells[@]}"; do
    IFS=: read -r policy threads seed <<<"$cell"
    overrides_of "$policy" >/dev/null || fail "no cell '$cell' (see --help)"
    [[ "$threads" =~ ^[124]$ && "$seed" =~ ^[0-9]+$ ]] || fail "no cell '$cell' (see --help)"
  done
  for cell in "${cells[@]}"; do
    IFS=: read -r policy threads seed <<<"$cell"
    run="$out/full/$threads/$policy-$seed"
    read -ra overrides <<<"$(overrides_of "$policy")"
    mkdir -p "$out/full/$threads"
    simulated "$run" "cluster.threads_per_node=$threads" "run.seed=$seed" data.kind=cifar10 \
      "data.path=$(yaml_string "$cifar")" data.augment=true train.eval_every_clocks=100 "${training[@]}" \
      "${overrides[@]}" && echo "reproduce_dtssp: $cell is finished: $run" >&2
  done
  for threads in 1 2 4; do
    cells=()
    for run in "$out/full/$threads"/*/; do
      [ "$(run_status "$run")" != ok ] || cells+=("${run%/}")
    done
    [ ${#cells[@]} -eq 0 ] || compared "table2-$threads" "${cells[@]}"
  done
  tables table2 "$out"
}

if [ -n "$cifar" ]; then
  full
else
  for part in "${parts[@]}"; do
    case "$part" in
      table1) table1 ;;
      sweep) sweep ;;
      table2) table2 ;;
    esac
  done
fi
exit "$failed"
