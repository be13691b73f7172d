#include "worker/train/pull_order.h"

#include <algorithm>

#include "common/config/local_endpoint.h"

namespace paceline {

WayToServers way_to_servers(const RunConfig& config, bool shares, std::int64_t cores) {
  const ClusterSection& cluster = config.cluster;
  WayToServers way;
  way.on_this_machine =
      std::all_of(cluster.endpoints.begin(), cluster.endpoints.end(), stays_on_this_machine);
  way.read_in_place =
      shares && cluster.gradient_encoding == Encoding::kFp32 && cluster.parameter_encoding == Encoding::kFp32;
  way.computes_elsewhere = config.emulate.base_step || config.train.device != Device::kCpu;
  way.shards = cluster.shards;
  way.replicas = cluster.replicas;
  way.workers = cluster.cluster().workers();
  way.cores = cores;
  return way;
}

bool pulls_before_push(PullOrder order, const WayToServers& way) {
  if (order != PullOrder::kAuto) return order == PullOrder::kBeforePush;
  if (!way.on_this_machine || way.computes_elsewhere || way.shards > 1 || way.cores == 0) return true;
  // What is sent is copied by the sockets' threads, beside those that compute and apply.
  const std::int64_t threads_of_one = way.read_in_place ? 1 : 2;
  return (way.workers + way.replicas) * threads_of_one <= way.cores;
}

}  // namespace paceline
