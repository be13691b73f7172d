// ShardLease: what one of a shard's replicas knows of the lease under which the shard is served, and asks of
// whoever keeps it: etcd (leader_election.h), or a simulation.
#pragma once

#include <string>

#include "server/replicas/leader_lease.h"

namespace paceline::server {

class ShardLease {
 public:
  using Incarnation = LeaderLease::Incarnation;
  using Members = LeaderLease::Members;

  virtual ~ShardLease() = default;
  // LeaderLease has the contracts; `acts` now.
  virtual bool acts() const = 0;
  virtual Members must_hold() const = 0;
  virtual bool has_complete(Incarnation replica) const = 0;
  virtual bool set_complete(Members members) = 0;
  // For the log: what stands in the way, or who serves.
  virtual std::string describe() const = 0;
};

}  // namespace paceline::server
