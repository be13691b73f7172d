// A model of what etcd has of one shard (server/replicas/leader_lease.h has the real one, under faults of its own
// in leader_lease_sim_test.cc): which process serves it, under a lease, and which are complete. Who changes it
// compares first.
#pragma once

#include <optional>
#include <utility>

#include "server/replicas/shard_lease.h"

namespace paceline::test {

class ServingRecord {
 public:
  using Process = server::ShardLease::Incarnation;
  using Members = server::ShardLease::Members;

  explicit ServingRecord(Process first) : serves_(first), complete_{first} {}

  // False: another one serves by now, or nobody.
  bool change(Process who, Members complete) {
    if (serves_ != who) return false;
    complete_ = std::move(complete);
    return true;
  }
  // What it had under its lease is gone.
  void lease_ends(Process who) {
    if (serves_ == who) serves_.reset();
  }
  // False: somebody serves, or it lacks something.
  bool take_over(Process who) {
    if (serves_ || !has_complete(who)) return false;
    serves_ = who;
    return true;
  }
  // Whatever it lacks: for a mutant.
  void take_over_by_force(Process who) { serves_ = who; }

  bool has_complete(Process who) const { return complete_.contains(who); }
  const Members& complete() const { return complete_; }

 private:
  std::optional<Process> serves_;
  Members complete_;
};

}  // namespace paceline::test
