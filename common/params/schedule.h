// The learning rate as a pure function of the version: warm-up, then a curve. The
// authority evaluates it once for each application and sends it with the grant, so that nobody can disagree.
//
// Scale and warm-up: Goyal et al., "Accurate, large minibatch SGD", 2017, sections 2.1 and 2.2. lr is first
// multiplied by `scale_factor` s, what `scale` makes of kn, the samples of a step: linear kn / base_batch, root
// the root of that. Of a warm-up of W versions:
//
//   gradual    lr s (f + (1 - f) version / W), so that version W is the first with the whole rate
//   constant   lr s f
//              f is warmup_factor; not given: 1 / s under scale, which is lr itself; else gradual is
//              lr (version + 1) / W
//
// Cosine: Loshchilov and Hutter, "SGDR", ICLR 2017, equation (5), without restarts. The others are Caffe's
// (sgd_solver.cpp), with `version` for its iterations. Like `step` they count from version 0, warm-up included,
// but cosine and poly, which have no jump at its end so (LARS' reference in MLPerf: lars_util.py):
//
//   exp        lr gamma^version
//   inv        lr (1 + gamma version)^-power
//   multistep  lr step_factor^n, n the entries of step_at that version has reached
//   poly       lr (e + (1 - e) (1 - (version - W) / (end - W))^power), lr e from the end on, e final_factor
//   sigmoid    lr / (1 + exp(-gamma (version - step_versions)))
//
// Worked example, lr 0.4, cosine, warmup_versions 4, total_versions 12, final_factor 0:
//   version  0    1    2    3    4    8    12 and later
//   rate     0.1  0.2  0.3  0.4  0.4  0.2  0
#pragma once

#include <cstdint>

#include "common/clock.h"
#include "common/config/optimizer_section.h"

namespace paceline {

// The rate with which the gradients that lead from `version` to the next one are applied. `planned_versions`:
// how many versions the run is meant to have; where cosine and poly end unless schedule.total_versions says
// otherwise. Steps are counted from version 0, warm-up included; cosine and poly begin after the warm-up.
// version >= 0.
double learning_rate(const OptimizerSection& optimizer, Version version, std::int64_t planned_versions);

}  // namespace paceline
