#include "common/config/cluster_events.h"

#include <algorithm>

namespace paceline {

std::vector<ClusterEvent> in_order(std::vector<ClusterEvent> events) {
  std::stable_sort(events.begin(), events.end(),
                   [](const ClusterEvent& a, const ClusterEvent& b) { return a.at < b.at; });
  return events;
}

std::vector<bool> late_nodes(const RunConfig& config) {
  std::vector<bool> late(config.cluster.nodes);
  std::vector<bool> seen(config.cluster.nodes);
  for (const ClusterEvent& event : in_order(config.simulate.events)) {
    if (event.node >= late.size()) continue;  // which validate() refuses
    if (!seen[event.node]) late[event.node] = event.kind == ClusterEventKind::kJoin;
    seen[event.node] = true;
  }
  return late;
}

}  // namespace paceline
