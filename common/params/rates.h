// Which learning rate holds for what the synchronisation core decides: the same number for the parameters
// themselves and for a worker's own apply, whoever keeps them.
#pragma once

#include <cstddef>
#include <string>

#include "common/clock.h"
#include "common/config/run_config.h"
#include "common/sync/actions.h"

namespace paceline {

// sync.stages: what the rates of a stage are multiplied by.
double rate_scale(const RunConfig& config, std::size_t stage);

// Of what is applied on top of `version`: the schedule counts the mini-batches of one worker, a version may have
// several.
double rate_at(const RunConfig& config, Version version, double scale = 1.0);

// The same for people who look at a curve: the rate of mini-batches, so of local steps the inner optimizer's in the
// first of a round. `stage`: of sync.stages.
double shown_rate(const RunConfig& config, Version version, std::size_t stage);
// On top of which version the step to `version` was; 0 of 0.
inline Version stepped_from(Version version) { return Version(version.value > 0 ? version.value - 1 : 0); }

// What scale and warm-up make of the configured rate, as "learning rate 0.1 x 8 = 0.8 for 2048 samples a step, after
// 390 versions of warm-up"; empty where there are neither.
std::string rate_text(const RunConfig& config);

// Of what `action` applies. `decided`: the version that the decision before led to.
double applied_rate(const RunConfig& config, const sync::Apply& action, Version decided);

// Of the granted worker's own apply.
struct LocalRate {
  double learning_rate = 0.0;
  double scale = 1.0;  // its share of the samples, where gradients are averaged
};
LocalRate local_rate(const RunConfig& config, const sync::Grant& action);

// Of a local step, the inner optimizer's. It follows the mini-batch's place in the run, not who is fast:
// `iteration` is its round's, times local_steps, and its number among the round's.
double inner_rate(const RunConfig& config, std::int64_t iteration);

}  // namespace paceline
