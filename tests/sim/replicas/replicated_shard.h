// ReplicatedShard: the servers of one shard, the connection between the two, what etcd has of them
// (serving_record.h), and what befalls them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "tests/sim/replicas/replica_plan.h"
#include "tests/sim/replicas/server_model.h"

namespace paceline::test {

class ReplicatedShard {
 public:
  struct Handlers {
    std::function<void(Party, const wire::Message&)> node;
    std::function<void(ShardId, const wire::Message&)> shard;
    std::function<void(const wire::Message&)> authority;
    std::function<void(const wire::Message&)> discards;
    std::function<void()> gone;          // who served is
    std::function<void()> served_again;  // by the other one
    std::function<void()> lost;          // for good: nobody can serve
  };
  ReplicatedShard(ShardId shard, const ServerModel::Run& run, const ShardFaults& faults,
                  std::int64_t lease_ns, Handlers handlers);

  // The follower comes, and what is to happen happens.
  void begin();
  // Who speaks for the shard; null: nobody does now.
  ServerModel* serving() const { return serving_; }
  // At the end: the one that follows, and has come to the same; or null.
  const ServerModel* follower() const;

 private:
  ServerModel& start(ServerModel::Does does);
  ServerModel::Handlers handlers_of(ServerModel::Process process);
  void follower_comes();
  void to_replica(ServerModel& from, const wire::Message& message);
  void ask_etcd(ServerModel& from, const ServerModel::Members& complete);
  void died(ServerModel& which);
  void lease_of_ended(ServerModel& which);
  // At `at`, or once there is a follower that has everything.
  void befall(std::int64_t at, std::function<void()> what);
  void depose();
  void cut_link();
  void break_link();
  Party party() const;
  Party follower_party() const;

  const ShardId shard_;
  const ServerModel::Run& run_;
  const ShardFaults faults_;
  const std::int64_t lease_ns_;
  Handlers handlers_;
  Acknowledged acknowledged_;
  ServingRecord record_{0};
  std::vector<std::unique_ptr<ServerModel>> processes_;  // that there have been
  ServerModel* serving_ = nullptr;
  ServerModel* follower_ = nullptr;
};

}  // namespace paceline::test
