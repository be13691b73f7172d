// NodeStates: with an all-reduce the nodes hold the run's state; a shard gives it to those that come, and has it
// from node 0, or the lowest that is left, when it is to be saved, or the run is over. Where each node steps its own
// part (exchange.shard_optimizer) it has that from each; of stages (pipeline.stages) from each of the first group.
//
// Thread: the server's loop.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/status.h"
#include "common/wire/messages.h"
#include "server/peers/peer.h"
#include "server/service/shard_checkpoints.h"
#include "server/store/shard.h"

namespace paceline::server {

class NodeStates {
 public:
  // All outlive this; `checkpoints` may be null: no authority asks for any. `senders`: state_senders()
  // (common/config/reducing.h).
  NodeStates(ShardId id, Outbox& outbox, ShardCheckpoints* checkpoints, std::uint32_t senders)
      : id_(id), outbox_(outbox), checkpoints_(checkpoints), senders_(senders) {}

  // A piece of that node's state. The authority is told when it is whole. Errors: what the sender is to be told.
  [[nodiscard]] Status on(Peer from, const wire::NodeState& piece, const wire::Payload& payload,
                          std::optional<Shard>& shard, std::uint64_t layout_hash);
  // The node waits for the state that the run begins with, or goes on from.
  void wanted(Peer from);
  // The shard has it.
  void send_wanted(Shard& shard);
  // That decision has been applied, and is to be saved once node 0 has sent what goes with it: they come over
  // different connections.
  void save(const wire::ApplyDecision& decision, Shard& shard, std::uint64_t layout_hash);

  // From then on the lowest of those that are left sends the state.
  void lost(NodeId node);
  // It does not know what of its state has come, and may not have it any more.
  void reconnected(NodeId node);

 private:
  struct Saving {
    Version version;
    Revision revision;
    std::int64_t decisions = 0;
  };
  void send(Peer to, Shard& shard);
  void save_if_whole(Shard& shard, std::uint64_t layout_hash);
  bool sends(NodeId node) const;
  void not_saved(NodeId node, const std::string& why);

  const ShardId id_;
  Outbox& outbox_;
  ShardCheckpoints* const checkpoints_;
  const std::uint32_t senders_;
  std::vector<Peer> want_;
  std::optional<Saving> saving_;
  NodeId speaker_{0};
  std::set<NodeId> lost_;
};

}  // namespace paceline::server
