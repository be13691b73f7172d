#include "tests/sim/end_checks.h"

#include <string>

namespace paceline::test {

void check_gradients_at_end(const std::vector<const ShardModel*>& shards, const Surroundings& run,
                            Violations& violations) {
  for (const ShardModel* shard : shards) {
    shard->check_empty();
    if (!(shard->counts() == shards[0]->counts()))
      violations.push_back("the shards hold different gradients");
  }
  for (const auto& [gradient, fate] : run.fates) {
    const auto& [worker, clock] = gradient;
    const int times = shards[0]->counts().of(run.plan.config.cluster.rank_of(worker), clock);
    if (times != (fate == Fate::kPushed ? 1 : 0))
      violations.push_back(to_string(worker) + "@" + to_string(clock) + " is in " + std::to_string(times) +
                           " times at the end");
  }
}

std::set<std::int64_t> iterations_in(const Counts& counts,
                                     const std::map<std::pair<WorkerId, Clock>, std::int64_t>& granted,
                                     Cluster cluster, std::set<std::int64_t> before, Violations& violations) {
  std::set<std::int64_t> in = std::move(before);
  for (const auto& [gradient, iteration] : granted) {
    if (counts.of(cluster.rank_of(gradient.first), gradient.second) == 0) continue;
    if (!in.insert(iteration).second)
      violations.push_back("iteration " + std::to_string(iteration) + " is in twice");
  }
  return in;
}

}  // namespace paceline::test
