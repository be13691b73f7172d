// The numbers of one step of an optimizer that are the same for all elements: from the run's settings, the
// learning rate and how many steps there were. Computed in double, rounded once.
#pragma once

#include <cstdint>

#include "common/config/optimizer_section.h"
#include "common/params/kernels.h"

namespace paceline {

// `factor`: of the elements (step_factors.h); the learning rate has theirs in it.
kernels::WeightDecay weight_decay(const OptimizerSection& settings, double learning_rate,
                                  double factor = 1.0);
// Of the step that is the `t`-th, the first being 1.
kernels::AdamStep adam_step(const OptimizerSection& settings, double learning_rate, std::int64_t t);
// `trust_ratio`: of LARS, which is in the kept step whatever the form.
kernels::MomentumStep momentum_step(const OptimizerSection& settings, double learning_rate,
                                    double trust_ratio = 1.0);
// Of adagrad, rmsprop and adadelta.
kernels::SquareStep square_step(const OptimizerSection& settings, double learning_rate);

}  // namespace paceline
