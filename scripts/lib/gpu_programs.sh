# What scripts/gpu_check.sh runs: targets of the build, and files by their place in its folder. To be sourced.
# shellcheck shell=bash disable=SC2034
gpu_targets=(paceline paceline-server paceline-worker paceline_cuda paceline_shared bench_model_step bench_bare_loop gpu_test)
gpu_programs=(bin/paceline bin/paceline-server bin/paceline-worker bin/libpaceline_cuda.so lib/libpaceline.so.0
  bin/bench_model_step bin/bench_bare_loop tests/gpu_test)
