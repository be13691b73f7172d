#include "server/store/decision_predictor.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "common/params/schedule.h"

namespace paceline::server {

DecisionPredictor::DecisionPredictor(const ShardSettings& settings, std::int64_t size, bool is_read)
    : mode_(settings.apply),
      combine_(settings.combine),
      turns_eager_(settings.turns_eager),
      expects_(is_read &&
               (settings.combine == CombineMode::kMean || settings.optimizer.kind == OptimizerKind::kSgd)),
      predicts_next_(is_read && settings.optimizer.kind == OptimizerKind::kSgd &&
                     (settings.turns_eager || settings.apply == ApplyMode::kEager)),
      cluster_(settings.cluster),
      settings_(settings.optimizer),
      planned_versions_(settings.planned_versions),
      rate_scale_(settings.rate_scale),
      next_gradient_(cluster_, size),
      expected_(cluster_.workers()),
      last_samples_(cluster_.workers()) {
  std::iota(expected_.begin(), expected_.end(), 0U);
}

void DecisionPredictor::arrived(const wire::Push& push) {
  if (predicts_next_) next_gradient_.arrived({push.worker, push.clock}, push.offset, push.last);
}

void DecisionPredictor::forget_missing(const GradientStore& gradients) {
  if (predicts_next_) next_gradient_.forget_missing(gradients);
}

bool DecisionPredictor::update() {
  if (mode_ != ApplyMode::kEager) return false;
  const std::optional<NextGradientPredictor::Named> predicted = next_gradient_.next();
  return std::exchange(predicted_, predicted) != predicted;
}

bool DecisionPredictor::decided(const wire::ApplyDecision& decision) {
  revision_ = decision.revision_after;
  rate_scale_ = decision.rate_scale;
  const bool turns = turns_eager_ && decision.apply == ApplyMode::kEager && mode_ != ApplyMode::kEager;
  if (turns) {
    mode_ = ApplyMode::kEager;
    combine_ = CombineMode::kEach;
  }
  if (predicts_next_) next_gradient_.decided(decision.contributions);
  if (mode_ == ApplyMode::kEager || !expects_) return turns;
  if (decision.contributions.empty() && decision.skipped.empty()) return turns;
  expected_.clear();
  for (const auto* list : {&decision.contributions, &decision.skipped}) {
    for (const wire::Contribution& c : *list) {
      const std::uint32_t rank = cluster_.rank_of(c.worker).value;
      expected_.push_back(rank);
      if (c.samples > 0) last_samples_[rank] = c.samples;
    }
  }
  std::sort(expected_.begin(), expected_.end());
  return turns;
}

std::optional<NextGradientPredictor::Named> DecisionPredictor::gradient(std::size_t already,
                                                                        Version version) const {
  if (mode_ == ApplyMode::kEager) return already == 0 ? predicted_ : std::nullopt;
  if (already >= expected_.size()) return std::nullopt;
  return NextGradientPredictor::Named{cluster_.worker_at(Rank(expected_[already])), Clock(version.value)};
}

std::optional<wire::Contribution> DecisionPredictor::contribution(std::size_t already,
                                                                  const Gradient& gradient) const {
  const bool mean = combine_ == CombineMode::kMean;
  std::int64_t samples = gradient.samples();
  if (samples == 0) samples = last_samples_[cluster_.rank_of(gradient.worker()).value];
  if (samples == 0 && mean) return std::nullopt;
  const std::int64_t missed =
      mean ? gradient.clock().value - gradient.computed_version().value
           : revision_.value + static_cast<std::int64_t>(already) - gradient.updates_known();
  return wire::Contribution{gradient.worker(), gradient.clock(), samples, std::max<std::int64_t>(missed, 0)};
}

double DecisionPredictor::rate(Version version) const {
  return learning_rate(settings_, version, planned_versions_) * rate_scale_;
}

}  // namespace paceline::server
