// What LARS, LAMB and the recipe for large mini-batches mean together with the rest (docs/LARGE_BATCHES.md).
#include <algorithm>
#include <cmath>
#include <string>

#include "common/accumulated_parts.h"
#include "common/config/checks.h"
#include "common/config/names.h"
#include "common/config/planned.h"
#include "common/config/validate.h"
#include "common/network/network.h"

namespace paceline::config {
bool in_lockstep(const RunConfig& c) {
  return c.sync.policy == PolicyKind::kBsp || c.sync.policy == PolicyKind::kBackup;
}

void check_large_batches(Validator& validator, const RunConfig& c, const OptimizerSection& optimizer,
                         const std::string& at) {
  const ScheduleSection& schedule = optimizer.schedule;
  const std::string kind = at + ".kind";
  const std::string warmup = at + ".schedule.warmup_versions";
  const std::string warmup_kind = at + ".schedule.warmup";
  validator.refuse_if(
      schedule.warmup_versions > planned_versions(c), {warmup.c_str(), "train.total_iterations"},
      "the warm-up is longer than the run",
      std::to_string(schedule.warmup_versions) + " of " + std::to_string(planned_versions(c)) + " versions",
      "a warm-up that ends with the run, or before");
  validator.refuse_if(
      schedule.warmup == WarmUp::kConstant && schedule.scale == RateScale::kNone && !schedule.warmup_factor,
      {warmup_kind.c_str()}, "a constant warm-up needs a rate", "no scale and no warmup_factor",
      "a warmup_factor, or scale: linear");
  const std::string scale = at + ".schedule.scale";
  const bool inner = at != "train.optimizer";
  const bool scaled = schedule.scale != RateScale::kNone;
  validator.refuse_if(scaled && !inner && c.train.has_inner_optimizer, {scale.c_str(), "train.local_steps"},
                      "the rate of deltas does not grow with the mini-batch",
                      "a scale with an inner_optimizer",
                      "scale: none; the inner_optimizer's schedule may have one");
  validator.refuse_if(
      scaled && !inner && c.sync.combine == CombineMode::kMean && is_ever_eager(c.sync.stages, c.sync.apply),
      {scale.c_str(), "sync.stages"}, "a stage that is eager applies gradients one by one", "a scale",
      "scale: none, or no eager stage");
  if (!measures_tensors(optimizer.kind)) return;
  const std::string staleness = at + ".staleness";
  validator.refuse_if(optimizer.staleness != StalenessScaling::kNone, {staleness.c_str(), kind.c_str()},
                      "its step does not depend on how long the gradient is",
                      std::string("staleness: ") + name_of(optimizer.staleness) +
                          " with kind: " + std::string(name_of(optimizer.kind)),
                      "staleness: none");
  const std::string got = std::string("kind: ") + name_of(optimizer.kind);
  validator.refuse_if(c.train.device == Device::kCuda && (inner || !in_lockstep(c)),
                      {kind.c_str(), "train.device", "sync.policy"},
                      "a worker's GPU has no such step of its own", got + " with train.device: cuda",
                      "policy: bsp or backup without local steps, or train.device: cpu");
  if (inner) return;
  validator.refuse_if(c.sync.combine != CombineMode::kMean || is_ever_eager(c.sync.stages, c.sync.apply),
                      {kind.c_str(), "sync.combine", "sync.stages"},
                      "it adapts to the gradient of the whole mini-batch",
                      got + " where each gradient is applied by itself", "combine: mean");
  validator.refuse_if(c.train.has_inner_optimizer, {kind.c_str(), "train.local_steps"},
                      "it adapts to gradients, and servers get deltas", got + " with an inner_optimizer",
                      "kind: sgd, momentum or adam; lars and lamb may be the inner one");
}

void check_accumulation(Validator& validator, const RunConfig& c) {
  const std::string got = "accumulate: " + std::to_string(c.train.accumulate);
  validator.refuse_if(c.train.accumulate > c.train.batch_size, {"train.accumulate", "train.batch_size"},
                      "more parts than samples",
                      got + " with batch_size: " + std::to_string(c.train.batch_size),
                      "accumulate up to batch_size");
}

void check_parts(Validator& validator, const TrainSection& train, const NetworkSpec& network) {
  const std::int64_t of_part = smallest_part(train.batch_size, train.accumulate);
  const bool has_one_value = std::ranges::any_of(network.layers, [of_part](const Layer& layer) {
    return layer.mixes_samples() && of_part * layer.in.height * layer.in.width == 1;
  });
  validator.refuse_if(
      train.accumulate > 1 && has_one_value, {"train.accumulate", "train.batch_size"},
      "a part of one value a channel, which a batch_norm cannot measure",
      std::to_string(train.accumulate) + " parts of " + std::to_string(train.batch_size) + " samples",
      "parts of at least 2 samples");
}

void resolve_large_batches(RunConfig& config, const Given& given) {
  for (const bool inner : {false, true}) {
    OptimizerSection& optimizer = inner ? config.train.inner_optimizer : config.train.optimizer;
    const std::string at = inner ? "train.inner_optimizer" : "train.optimizer";
    if (measures_tensors(optimizer.kind)) {
      if (optimizer.weight_decay > 0 && !given.has(at + ".decay")) optimizer.decay = TensorsOf::kWeights;
      const bool lars = optimizer.kind == OptimizerKind::kLars;
      if (lars && !given.has(at + ".momentum_form")) optimizer.momentum_form = MomentumForm::kInside;
    }
  }
}

void resolve_scale(RunConfig& config) {
  for (const bool inner : {false, true}) {
    ScheduleSection& schedule = (inner ? config.train.inner_optimizer : config.train.optimizer).schedule;
    const auto samples = static_cast<double>(samples_of_a_step(config, inner));
    const double larger = samples / static_cast<double>(schedule.base_batch);
    schedule.scale_factor = schedule.scale == RateScale::kLinear ? larger
                            : schedule.scale == RateScale::kRoot ? std::sqrt(larger)
                                                                 : 1.0;
  }
}

std::vector<std::string> rate_warnings(const RunConfig& config, const Given& given) {
  std::vector<std::string> warnings;
  for (const bool inner : {false, true}) {
    const ScheduleSection& schedule =
        (inner ? config.train.inner_optimizer : config.train.optimizer).schedule;
    const std::string at = inner ? "train.inner_optimizer.schedule." : "train.optimizer.schedule.";
    const std::string base = at + "base_batch";
    if (schedule.scale != RateScale::kNone && !given.has(base)) {
      warnings.push_back(base + ": not given, so lr is taken for steps of " +
                         std::to_string(schedule.base_batch) + " samples");
    }
    const std::int64_t end = planned_versions(config);
    const auto after =
        std::ranges::find_if(schedule.step_at, [end](std::int64_t turn) { return turn >= end; });
    if (schedule.kind != ScheduleKind::kMultistep || after == schedule.step_at.end()) continue;
    // Of a pool the slowest's clock, which the version is, ends before.
    const bool ends_before = config.train.share == Share::kPool && !in_lockstep(config);
    warnings.push_back(given.as_given(at + "step_at") + ": the run ends with version " + std::to_string(end) +
                       (ends_before ? " at the latest" : "") + ", so there is no step at " +
                       std::to_string(*after));
  }
  return warnings;
}

}  // namespace paceline::config
