#include "common/sync/policy_switch.h"

#include <utility>

#include "common/assert.h"
#include "common/sync/test_hooks.h"

namespace paceline::sync {

PolicyConfig policy_of(const PolicyConfig& config, const PolicyStage& stage) {
  PolicyConfig policy = config;
  policy.stages.clear();
  policy.kind = stage.policy;
  policy.threshold = stage.threshold;
  policy.threshold_min = stage.threshold_min;
  policy.threshold_max = stage.threshold_max;
  return policy;
}

PolicySwitch::PolicySwitch(const PolicyConfig& config)
    : config_(config), current_(make_policy(policy_of(config, config.stages.front()))) {}

void PolicySwitch::on_window(const WindowResult& window) {
  if (window.begins_at < begun_at_) return;  // in part the stage's before
  const bool first = !window_;
  window_ = window;
  if (first) window_->lpr.reset();  // compared with a window of the stage before
  current_->on_window(*window_);
}

void PolicySwitch::on_clock(Rank worker, Clock clock, Ticks now, const ClockTable& clocks) {
  if (live_.size() <= worker.value) live_.resize(worker.value + std::size_t{1});
  if (live_[worker.value]) ++iterations_;
  live_[worker.value] = Place{clock, now};
  current_->on_clock(worker, clock, now, clocks);
}

void PolicySwitch::on_departure(Rank worker) {
  if (worker.value < live_.size()) live_[worker.value].reset();
  current_->on_departure(worker);
}

bool PolicySwitch::is_over(const StageUntil& until, Version version) const {
  switch (until.end) {
    case StageEnd::kNever:
      return false;
    case StageEnd::kVersion:
      return static_cast<double>(version.value) >= until.value;
    case StageEnd::kIterations:
      return static_cast<double>(iterations_) >= until.value;
    case StageEnd::kTrainAccuracy:
      return window_ && window_->accuracy >= until.value;
    case StageEnd::kTrainLoss:
      return window_ && window_->loss_mean <= until.value;
    case StageEnd::kProgress:
      break;
  }
  PACELINE_ASSERT(false, "a share of the run has become a number of iterations");
  return false;
}

void PolicySwitch::on_version(Version version, Ticks, const ClockTable& clocks) {
  const std::size_t before = stage_;
  while (is_over(config_.stages[stage_].until, version) ||
         (broken(Mutant::kSwitchTooSoon) && stage_ + 1 < config_.stages.size())) {
    ++stage_;
    window_.reset();
  }
  if (stage_ == before) return;
  begun_at_ = version;
  current_ = make_policy(policy_of(config_, config_.stages[stage_]));
  for (std::uint32_t r = 0; r < live_.size(); ++r) {
    if (live_[r]) current_->on_clock(Rank(r), live_[r]->clock, live_[r]->since, clocks);
  }
}

}  // namespace paceline::sync
