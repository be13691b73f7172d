#!/usr/bin/env bash
# The experiment of the DTSSP paper (Kim and Rhee 2019) beside its published figures (docs/EXPERIMENTS.md): learning
# time (Table 1) and where it goes (Fig. 9, 10) of BSP, SSP(3) and DTSSP, and of SSP(10), a random walk in [3, 10] and
# ASP, with 4 nodes x 1, 2, 4 threads; the threshold's path; what the result owes to the cluster that is assumed; and
# accuracies (Table 2) with the time to reach one, of training runs that are cut to the budget. The cluster is that of
# configs/dtssp_paper.yaml.
#   scripts/reproduce_dtssp.sh [--out DIR] [--bin DIR] [--seeds N] [--iterations N] [--sweep-iterations N]
#                              [--training-iterations N] [--target ACC] [--learning-rate LR] [--more] [PART …]
#     PART   table1, sweep, table2; all when none is named
#     --seeds N   1 to N, the same for every policy (default 5; fewer give figures and no verdict)
#     --iterations N   of the simulated Table 1 (default 100000, the paper's); --sweep-iterations of the sweep (20000)
#     --training-iterations N   to which Table 2's runs are cut (default 1024)
#     --target ACC   the test accuracy to which Table 2 counts the time, 0 to 1 (default 0.25; with --full 0.8)
#     --learning-rate LR   Table 2's (default the configuration's, which SSP and DTSSP do not bear at this length); give
#                 each rate its own --out
#     --more      Table 2 of SSP(10) and the walk, too, and with refresh_clocks 1 for 16 workers: 11 runs for each seed
#                 beside 9, so twice its time and a fifth more
#   scripts/reproduce_dtssp.sh --full CIFAR10_DIR [--out DIR] [--bin DIR] [--target ACC] [--refresh-clocks N|null]
#                              [POLICY:THREADS:SEED …]
#     trains all 100,000 iterations of the named cells on CIFAR-10 (POLICY: bsp, ssp3, dtssp, ssp10, walk; all with
#     threads 1, 2, 4 and seeds 1 to 5 when none is named: many days), and compares those that have ended
#     --refresh-clocks   null (default, the paper's caches), or another number of clocks: cells of their own
# Resumable: a run that succeeded with the configuration it would have now is kept, and so is one that diverged: the
# same seed would do it again. One that failed counts in the tables as censored; one that left no result is named above
# them. Ctrl-C, SIGTERM or SIGHUP stops the run in order. Exit status: 0 all runs succeeded, 1 some did not, 2 wrong
# usage.
set -uo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
. "$root/scripts/lib/arguments.sh"
. "$root/scripts/lib/processes.sh"
. "$root/scripts/lib/runs.sh"
. "$root/scripts/lib/yaml.sh"

out="$root/runs/dtssp" bin="$root/build/release/bin" config="$root/configs/dtssp_paper.yaml"
seeds=5 iterations=100000 sweep_iterations=20000 training_iterations=1024 target='' learning_rate='' more='' full=''
refresh_clocks=null parts=() cells=()
read_arguments "--out folder" "--bin folder" "--full folder" "--seeds number" "--iterations number" \
  "--sweep-iterations number" "--training-iterations number" "--target share" "--learning-rate rate" --more \
  "--refresh-clocks number or null" words -- "$@"
for word in "${words[@]}"; do
  case "$word" in
    *:*:*) cells+=("$word") ;;
    table1 | sweep | table2) parts+=("$word") ;;
    *) fail "no part '$word' (see --help)" ;;
  esac
done
[ -x "$bin/paceline" ] || fail "$bin/paceline is not there; build it with scripts/build.sh"
[ ${#cells[@]} -eq 0 ] || [ -n "$full" ] || fail "cells go with --full (see --help)"
[ -z "$full" ] || [ -e "$full/test_batch.bin" ] || fail "no CIFAR-10 in '$full' (its binary format; see --help)"
[ "$seeds" -ge 1 ] || fail "--seeds needs 1 or more"
[ "$training_iterations" -ge 1 ] || fail "--training-iterations needs 1 or more"
[ -n "$target" ] || target=$([ -n "$full" ] && echo 0.8 || echo 0.25)
[[ "$target" =~ ^0?\.[0-9]*[1-9][0-9]*$ ]] || fail "--target needs a share between 0 and 1, got '$target'"
[[ "$refresh_clocks" =~ ^(null|[1-9][0-9]*)$ ]] || fail "--refresh-clocks needs a number or null, got '$refresh_clocks'"
[ "$refresh_clocks" = null ] || [ -n "$full" ] || fail "--refresh-clocks goes with --full (see --help)"
[ -z "$learning_rate" ] || "$bin/paceline" check-config "$config" "train.optimizer.lr=$learning_rate" >/dev/null || exit 2
[ ${#parts[@]} -gt 0 ] || parts=(table1 sweep table2)
mkdir -p "$out" || fail "cannot create $out" 1
on_signals pass_on pass_on_save
failed=0

# overrides_of POLICY: sets `overrides` to what it changes in configs/dtssp_paper.yaml. ASP cannot leave its parameters
# unread, and BSP applies version by version (docs/SYNC.md), also where a sweep has all others apply on arrival.
overrides=()
overrides_of() {
  local fixed=(sync.threshold_min=null sync.threshold_max=null)
  case "$1" in
    bsp) overrides=(sync.policy=bsp sync.threshold=null "${fixed[@]}" sync.apply=versioned) ;;
    ssp3) overrides=(sync.policy=ssp sync.threshold=3 "${fixed[@]}") ;;
    ssp10) overrides=(sync.policy=ssp sync.threshold=10 "${fixed[@]}") ;;
    dtssp) overrides=(sync.policy=dtssp) ;;
    walk) overrides=(sync.policy=random_walk) ;;
    asp) overrides=(sync.policy=asp sync.threshold=null "${fixed[@]}" sync.apply=eager sync.refresh_clocks=1) ;;
    *) return 1 ;;
  esac
}

# simulate RUN [key.path=value …]: has it made, unless it is there, beside others: as many at a time as there are
# processors. simulated: waits for all of them; `ended` are the runs with a result, in their order, also those that
# failed; `lost` those without one, which it names. A simulation is one thread. No other process is begun between two of
# them: bash may lose a SIGINT that comes just as one ends that it waits for in a $(…).
at_once=$(nproc)
under_way=() ended=() lost=() keep_diverged=1
simulate() {
  local run=$1
  shift
  if can_keep "$bin/paceline" "$run" "$config" "$@"; then
    under_way+=("kept $run")
    return
  fi
  while [ "${#children[@]}" -ge "$at_once" ]; do settle_first; done
  [ ! -d "$run" ] || run_files "$run" -delete # of another run, should this one leave nothing
  begin_child "$bin/paceline" simulate "$config" --out "$run" --force "$@" >"$run.log" 2>&1
  under_way+=("$begun $run")
}
settle_first() {
  local id run well=''
  IFS=' ' read -r id run <<<"${under_way[0]}"
  under_way=("${under_way[@]:1}")
  if [ "$id" = kept ]; then
    has_diverged "$run" || well=1
  elif await_child "$id"; then
    well=1
  fi
  if [ -n "$well" ]; then
    ended+=("$run")
    [ -z "$full" ] || echo "reproduce_dtssp: finished: $run" >&2
    return
  fi
  if [ -n "$stopped" ]; then
    while [ ${#children[@]} -gt 0 ]; do await_child "${children[0]}"; done
    fail "stopped; the same command goes on with $run" 1
  fi
  if [ -n "$(run_status "$run")" ]; then ended+=("$run"); else lost+=("$run"); fi
  echo "reproduce_dtssp: $run failed: $(tail -n 1 "$run.log")" >&2
  failed=1
}
simulated() {
  local run
  while [ ${#under_way[@]} -gt 0 ]; do settle_first; done
  for run in "${lost[@]}"; do echo "no result, and in no table: $run"; done
  lost=()
}

# compared NAME RUN…: what may be said of these runs, in $out/NAME.json; with `report_options` as well, where a part has
# some.
report_options=()
compared() {
  local name=$1
  shift
  if [ $# -eq 0 ] || ! "$bin/paceline" report --compare --json "${report_options[@]}" "$@" >"$out/$name.json"; then
    failed=1
    rm -f "$out/$name.json"
  fi
}
tables() { python3 "$root/scripts/lib/dtssp_tables.py" "$@" || failed=1; }

# each_policy NAME "POLICY…" [key.path=value …]: these with every seed, and what may be said of all of them together.
# Seed by seed, so that whole pairs are there as soon as they can be.
each_policy() {
  local name=$1 policies=$2 policy seed overrides
  shift 2
  mkdir -p "$out/$name"
  ended=()
  for ((seed = 1; seed <= seeds; seed++)); do
    for policy in $policies; do
      overrides_of "$policy"
      simulate "$out/$name/$policy-$seed" "run.seed=$seed" "$@" "${overrides[@]}"
    done
  done
  simulated
  compared "${name//\//-}" "${ended[@]}"
}

table1() {
  local refresh threads
  for refresh in null 1; do
    for threads in 1 2 4; do
      echo "reproduce_dtssp: table 1, refresh_clocks $refresh, 4 x $threads workers, $seeds seeds" >&2
      each_policy "table1/$refresh-$threads" "bsp ssp3 dtssp ssp10 walk asp" "cluster.threads_per_node=$threads" \
        "train.total_iterations=$iterations" "sync.refresh_clocks=$refresh"
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
  echo "applied-on-arrival sync.apply=eager"
}
sweep() {
  local point names=()
  while read -ra point; do
    echo "reproduce_dtssp: sweep, ${point[0]}" >&2
    names+=("${point[0]}")
    each_policy "sweep/${point[0]}" "bsp ssp3 dtssp ssp10 walk asp" "train.total_iterations=$sweep_iterations" \
      "${point[@]:1}"
  done < <(sweep_points)
  tables sweep "$out" "${names[@]}"
}

# How training runs are made: gradients that are computed, in the virtual time of the assumed cluster.
training=(simulate.mode=training simulate.metric.final_accuracy=null)

# Table 2 as far as the budget goes: a small network on generated data, mini-batches of 16, windows short enough for
# DTSSP to have some, and eight tests on the way, for the time to accuracy.
table2() {
  local threads data="$out/data" policies="bsp ssp3 dtssp" report_options=(--target "$target")
  if [ ! -e "$data/test_batch.bin" ]; then
    run_child "$bin/paceline" data synthesize --out "$data" >&2 || fail "no data in $data" 1
  fi
  cut_runs() { # NAME THREADS REFRESH
    local every=$((training_iterations / (32 * $2)))
    echo "reproduce_dtssp: table 2, cut to $training_iterations iterations, refresh_clocks $3, 4 x $2 workers, $seeds seeds" >&2
    each_policy "table2/$1" "$policies" "cluster.threads_per_node=$2" "sync.refresh_clocks=$3" \
      "data.path=$(yaml_string "$data")" train.model=cifar_cnn_small train.batch_size=16 sync.lpr.window_clocks=8 \
      "train.total_iterations=$training_iterations" "train.eval_every_clocks=$((every > 0 ? every : 1))" "${training[@]}" \
      ${learning_rate:+"train.optimizer.lr=$learning_rate"}
  }
  [ -z "$more" ] || policies+=" ssp10 walk"
  for threads in 1 2 4; do cut_runs "$threads" "$threads" null; done
  [ -z "$more" ] || cut_runs refresh-1-4 4 1
  tables table2 "$out"
}

# The whole experiment, cell by cell: what has ended is compared, whoever ran it and when.
full_runs() {
  local cell policy threads seed run overrides refresh='' report_options=(--target "$target")
  [ "$refresh_clocks" = null ] || refresh="refresh-$refresh_clocks-"
  if [ ${#cells[@]} -eq 0 ]; then
    for ((seed = 1; seed <= seeds; seed++)); do
      for threads in 4 2 1; do
        for policy in bsp ssp3 dtssp ssp10 walk; do cells+=("$policy:$threads:$seed"); done
      done
    done
  fi
  for cell in "${cells[@]}"; do
    IFS=: read -r policy threads seed <<<"$cell"
    overrides_of "$policy" || fail "no cell '$cell' (see --help)"
    [[ "$threads" =~ ^[124]$ && "$seed" =~ ^[0-9]+$ ]] || fail "no cell '$cell' (see --help)"
  done
  for cell in "${cells[@]}"; do
    IFS=: read -r policy threads seed <<<"$cell"
    run="$out/full/$refresh$threads/$policy-$seed"
    overrides_of "$policy"
    mkdir -p "$out/full/$refresh$threads"
    simulate "$run" "cluster.threads_per_node=$threads" "run.seed=$seed" data.kind=cifar10 \
      "data.path=$(yaml_string "$full")" data.augment=true train.eval_every_clocks=100 "${training[@]}" \
      "sync.refresh_clocks=$refresh_clocks" "${overrides[@]}"
  done
  simulated
  for threads in 1 2 4; do
    cells=()
    for run in "$out/full/$refresh$threads"/*/; do
      [[ ! "$(run_status "$run")" =~ ^(ok|failed)$ ]] || cells+=("${run%/}") # one that was stopped is gone on with
    done
    if [ ${#cells[@]} -gt 0 ]; then compared "full-$refresh$threads" "${cells[@]}"; else rm -f "$out/full-$refresh$threads.json"; fi
  done
  tables full "$out"
}

if [ -n "$full" ]; then
  full_runs
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
