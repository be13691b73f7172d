// The learning rate as a pure function of the version: linear warm-up, then a curve. The
// authority evaluates it once for each application and sends it with the grant, so that nobody can disagree.
//
// Warm-up: Goyal et al., "Accurate, large minibatch SGD", 2017, section 2.2. Cosine: Loshchilov and Hutter,
// "SGDR", ICLR 2017, equation (5), without restarts. The others are Caffe's (sgd_solver.cpp), with `version`
// for its iterations; like `step` they count from version 0, warm-up included:
//
//   exp        lr gamma^version
//   inv        lr (1 + gamma version)^-power
//   multistep  lr step_factor^n, n the entries of step_at that version has reached
//   poly       lr (1 - version / end)^power, 0 from the end on
//   sigmoid    lr / (1 + exp(-gamma (version - step_versions)))
//
// Worked example, lr 0.4, cosine, warmup_versions 4, total_versions 12, final_factor 0:
//   version  0    1    2    3    4    8    12 and later
//   rate     0.1  0.2  0.3  0.4  0.4  0.2  0
#pragma once

#include <cstdint>

#include "common/clock.h"
#include "common/config/run_config.h"

namespace paceline {

// How many versions the run is meant to have: as many as a worker has iterations, when all have as many. With
// local steps a version of a schedule is still one mini-batch of each worker, so schedules mean the same for
// any number of them.
std::int64_t planned_versions(const RunConfig& config);
// How many iterations are applied for each of these.
std::int64_t iterations_of_a_clock(const RunConfig& config);

// The rate with which the gradients that lead from `version` to the next one are applied. `planned_versions`:
// how many versions the run is meant to have; where cosine and poly end unless schedule.total_versions says
// otherwise. Steps are counted from version 0, warm-up included; the cosine begins behind the warm-up.
// version >= 0.
double learning_rate(const OptimizerSection& optimizer, Version version, std::int64_t planned_versions);

}  // namespace paceline
