// RunOutbox: what the authority and its parts send, by whom it is for. Decisions are numbered, so that each shard
// applies the same in the same order.
//
// Thread: one at a time (the server's loop).
#pragma once

#include <cstdint>
#include <utility>

#include "common/clock.h"
#include "common/ids.h"
#include "common/wire/messages.h"
#include "server/peers/peer.h"

namespace paceline::server {

class RunOutbox {
 public:
  // `decisions`: how many a resumed run had sent, the last of which led to version `decided`. `outbox` outlives this.
  RunOutbox(std::uint32_t shards, Outbox& outbox, std::int64_t decisions, Version decided)
      : shards_(shards), outbox_(outbox), decisions_(decisions), decided_(decided) {}
  RunOutbox(const RunOutbox&) = delete;

  void to_node(NodeId node, wire::Body body) { outbox_.send(Peer::of(node), {std::move(body), {}}); }
  void to_shard(ShardId shard, wire::Body body) { outbox_.send(Peer::of(shard), {std::move(body), {}}); }
  void to_shards(const wire::Body& body) {
    for (std::uint32_t k = 0; k < shards_; ++k) to_shard(ShardId(k), body);
  }

  // To all shards, in the order in which decisions are to be applied.
  void decide(wire::ApplyDecision decision) {
    decided_ = decision.version_after;
    decision.sequence = decisions_++;
    to_shards(decision);
  }
  std::int64_t decisions() const { return decisions_; }
  // To which version the last one led.
  Version decided() const { return decided_; }

 private:
  const std::uint32_t shards_;
  Outbox& outbox_;
  std::int64_t decisions_;  // and so the number of the next
  Version decided_;
};

}  // namespace paceline::server
