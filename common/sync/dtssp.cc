#include "common/sync/dtssp.h"

#include <algorithm>

#include "common/sync/engine_state.h"

namespace paceline::sync {

Dtssp::Dtssp(const PolicyConfig& config) : config_(config), s_(config.threshold) {}

void Dtssp::on_window(const WindowResult& window) {
  if (!window.lpr) return;  // the first window: there is nothing to compare with
  if (*window.lpr > config_.increase_above) ++s_;
  if (*window.lpr < config_.decrease_below) --s_;
  s_ = std::clamp(s_, config_.threshold_min, config_.threshold_max);
}

void Dtssp::save(PolicyState& state) const { state.threshold = s_; }

Status Dtssp::resume(const EngineState& state) {
  PACELINE_RETURN_IF_ERROR(check_threshold(state.policy, config_));
  s_ = state.policy.threshold;
  return Status::ok();
}

}  // namespace paceline::sync
