#include "common/sync/policy.h"

#include "common/assert.h"
#include "common/sync/asp.h"
#include "common/sync/backup.h"
#include "common/sync/bsp.h"
#include "common/sync/dssp.h"
#include "common/sync/dtssp.h"
#include "common/sync/engine_state.h"
#include "common/sync/policy_switch.h"
#include "common/sync/random_walk.h"
#include "common/sync/ssp.h"

namespace paceline::sync {

Status check_threshold(const PolicyState& state, const PolicyConfig& config) {
  if (state.threshold >= config.threshold_min && state.threshold <= config.threshold_max) return Status::ok();
  return invalid_argument("policy.threshold: got " + std::to_string(state.threshold) + ", expected " +
                          std::to_string(config.threshold_min) + " .. " +
                          std::to_string(config.threshold_max));
}

std::unique_ptr<Policy> make_policy(const PolicyConfig& config) {
  switch (config.kind) {
    case PolicyKind::kBsp:
      return std::make_unique<Bsp>();
    case PolicyKind::kAsp:
      return std::make_unique<Asp>();
    case PolicyKind::kSsp:
      return std::make_unique<Ssp>(Threshold(config.threshold));
    case PolicyKind::kDtssp:
      return std::make_unique<Dtssp>(config);
    case PolicyKind::kRandomWalk:
      return std::make_unique<RandomWalk>(config);
    case PolicyKind::kDssp:
      return std::make_unique<Dssp>(config);
    case PolicyKind::kBackup:
      return std::make_unique<Backup>();
    case PolicyKind::kSwitch:
      return std::make_unique<PolicySwitch>(config);
  }
  PACELINE_ASSERT(false, "unknown policy kind");
  return nullptr;
}

}  // namespace paceline::sync
