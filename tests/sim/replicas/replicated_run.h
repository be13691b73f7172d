// A simulated run whose shards have two servers each: real nodes' halves (node_model.h), real replicas'
// halves (server_model.h), and a network between them; servers that die in the middle of what they do,
// connections that break, nodes that die, leave, come late or come back. Everything follows from the plan's
// seed.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "tests/sim/node_model.h"
#include "tests/sim/replicas/replica_plan.h"
#include "tests/sim/replicas/replicated_shard.h"

namespace paceline::test {

class ReplicatedRun {
 public:
  ReplicatedRun(const ReplicaPlan& plan, Breach breach, Violations& violations, ReplicaFaults& faults);

  void run();

 private:
  NodeModel& node_at(NodeId node) { return *incarnations_[node.value].back(); }
  ServerModel* serving(ShardId shard) const { return shards_[shard.value]->serving(); }
  ReplicatedShard::Handlers handlers_of(ShardId shard);
  void check_end();

  // ---- nodes (replicated_run_nodes.cc)
  void start(NodeId node);
  void come(NodeId node);
  void come_back(NodeId node);
  void kill(NodeId node);
  void end(NodeModel& node);
  // The authority notices it within a lease.
  void has_ended(const NodeModel& node);
  // It looks for the server that serves, over one connection after another.
  void find_server(NodeModel& node, ShardId server);
  void join(NodeModel& node, ShardId server);
  void cut_off(NodeModel& node, ShardId server, std::int64_t for_ns);
  void breaks(NodeModel& node, ShardId server);
  // Whether it comes back to this server, which waits so long.
  void watch(ServerModel& server, NodeId node, Party who, std::int64_t for_ns);
  void node_receives(Party who, ShardId from, const wire::Message& message);

  // ---- servers (replicated_run.cc)
  void stop();
  void begin(const LinkCut& cut);
  void is_gone(ShardId shard);
  void is_served_again(ShardId shard);
  void authority_breaks(ShardId shard, std::int64_t for_ns);
  void find_authority(ShardId shard);

  const ReplicaPlan& plan_;
  Violations& violations_;
  ReplicaFaults& faults_;
  Network network_;
  Surroundings surroundings_;
  const ServerModel::Run servers_;
  std::vector<std::unique_ptr<ReplicatedShard>> shards_;
  std::vector<std::vector<std::unique_ptr<NodeModel>>> incarnations_;  // by node; the last one is there
  std::map<Party, NodeModel*> nodes_;
  std::set<NodeId> joined_, returned_;
  std::set<Party> in_the_run_;  // who have been welcomed by the authority
  std::map<std::pair<Party, ShardId>, std::int64_t> cut_until_;
  // Training has begun, and somebody was told so. Who is lost before that would be waited for.
  bool under_way_ = false;
  bool lost_ = false;  // both servers of a shard are
};

// Runs it to its end and returns everything that was wrong.
Violations simulate(const ReplicaPlan& plan, ReplicaFaults* faults = nullptr, Breach breach = Breach::kNone);

}  // namespace paceline::test
