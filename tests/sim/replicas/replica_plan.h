// ReplicaPlan: one random run whose shards have two servers each, drawn from its seed: the run that
// run_plan.h draws, and what befalls the servers.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tests/sim/replicas/server_model.h"
#include "tests/sim/run_plan.h"

namespace paceline::test {

// Each moment waits until the shard has a follower that has everything; where it has lost one by then nothing
// happens.
struct ShardFaults {
  std::optional<std::int64_t> dies_at_ns;        // who serves then
  std::optional<ServerModel::Death> dies_in;     // where in what it then does; none: between two messages
  std::optional<std::int64_t> dies_again_at_ns;  // who serves then, alone or not
  std::optional<std::int64_t> follower_dies_at_ns;
  std::optional<std::int64_t> link_cut_at_ns;  // between the two, for good
  std::optional<std::int64_t> deposed_at_ns;   // who serves cannot reach etcd from then on
  bool first_follower_dies = false;            // before it has everything
};

struct ReplicaPlan {
  RunPlan run;
  std::vector<ShardFaults> shards;
  std::int64_t lease_ns = 0;  // of who serves, and how long it waits for its follower
  std::string describe() const;
};

ReplicaPlan replica_plan_of(std::uint64_t seed);

}  // namespace paceline::test
