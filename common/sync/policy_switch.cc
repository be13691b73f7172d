#include "common/sync/policy_switch.h"

#include <utility>

#include "common/assert.h"

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
  WindowResult seen = window;
  if (!window_) seen.lpr.reset();  // compared with a window of the stage before
  // What nobody has counted reaches no accuracy.
  window_ = StageWindow{window.loss_mean, window.accuracy.value_or(0.0)};
  current_->on_window(seen);
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
  while (is_over(config_.stages[stage_].until, version)) {
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

void PolicySwitch::save(PolicyState& state) const {
  state.stage = stage_;
  state.stage_begun_at = begun_at_;
  state.stage_window = window_;
  current_->save(state);
}

// What was completed and not yet applied is to be done again, so it is not counted.
Status PolicySwitch::resume(const EngineState& state) {
  const std::size_t stages = config_.stages.size();
  if (state.policy.stage >= stages) {
    return invalid_argument("policy.stage: got " + std::to_string(state.policy.stage) + ", expected 0 .. " +
                            std::to_string(stages - 1));
  }
  const Version begun_at = state.policy.stage_begun_at;
  if (begun_at < Version(0) || begun_at > state.version) {
    return invalid_argument("policy.stage_begun_at: got " + to_string(begun_at) + ", expected 0 .. version " +
                            to_string(state.version));
  }
  stage_ = state.policy.stage;
  begun_at_ = begun_at;
  window_ = state.policy.stage_window;
  iterations_ = state.revision.value + state.skipped;
  current_ = make_policy(policy_of(config_, config_.stages[stage_]));
  return current_->resume(state);
}

}  // namespace paceline::sync
