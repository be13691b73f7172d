#include "server/authority/reconfigure.h"

#include "common/config/engine_config.h"

namespace paceline::server {
namespace {

// Half of which a server waits for its replica (ServingReplica::check_follower_comes).
constexpr int kLeasesOfNodes = 4;

}  // namespace

Status can_reconfigure(const RunConfig& config) {
  const std::string what = "a replica comes back into a run only ";
  if (!config.checkpoint.enabled()) {
    return failed_precondition(what + "where that is saved (checkpoint.every or checkpoint.every_clocks)");
  }
  if (config.cluster.reconnect_timeout < kLeasesOfNodes * config.cluster.lease) {
    return failed_precondition(what + "whose nodes wait for its servers for " +
                               std::to_string(kLeasesOfNodes) +
                               " leases at least (cluster.reconnect_timeout)");
  }
  if (!sync::workers_come_and_go(engine_config(config))) {
    return failed_precondition(what + "without sync.backup_workers, train.batch_balance and local_balance");
  }
  return Status::ok();
}

}  // namespace paceline::server
