// What every simulated run is judged by at its end, whoever served it: what is in the shards' parameters.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "tests/sim/node_model.h"
#include "tests/sim/shard_model.h"

namespace paceline::test {

// Nothing is held any more; all shards have the same; nothing that was pushed is lost, unless it was
// discarded, and nothing is in that was not pushed.
void check_gradients_at_end(const std::vector<const ShardModel*>& shards, const Surroundings& run,
                            Violations& violations);

// The iterations whose gradients are in `counts`, and those `before`; `granted`: by the stamp of their
// gradient. That each is in once is judged.
std::set<std::int64_t> iterations_in(const Counts& counts,
                                     const std::map<std::pair<WorkerId, Clock>, std::int64_t>& granted,
                                     Cluster cluster, std::set<std::int64_t> before, Violations& violations);

}  // namespace paceline::test
