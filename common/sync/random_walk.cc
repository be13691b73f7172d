#include "common/sync/random_walk.h"

#include <algorithm>

#include "common/random.h"
#include "common/sync/engine_state.h"

namespace paceline::sync {

RandomWalk::RandomWalk(const PolicyConfig& config) : config_(config), s_(config.threshold) {}

void RandomWalk::on_window(const WindowResult& window) {
  if (!window.lpr) return;  // the first window, at which DTSSP has nothing to compare with
  const auto index = static_cast<std::uint64_t>(window.index);
  const bool up = CounterRandom(config_.seed, Stream::kThresholdWalk, index).next_u32() % 2 == 1;
  s_ += up ? 1 : -1;
  s_ = std::clamp(s_, config_.threshold_min, config_.threshold_max);
}

void RandomWalk::save(PolicyState& state) const { state.threshold = s_; }

Status RandomWalk::resume(const EngineState& state) {
  PACELINE_RETURN_IF_ERROR(check_threshold(state.policy, config_));
  s_ = state.policy.threshold;
  return Status::ok();
}

}  // namespace paceline::sync
