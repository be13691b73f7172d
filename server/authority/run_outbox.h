// RunOutbox: what the authority and its parts send, by whom it is for.
//
// Thread: one at a time (the server's loop).
#pragma once

#include <cstdint>
#include <utility>

#include "common/ids.h"
#include "common/wire/messages.h"
#include "server/peer.h"

namespace paceline::server {

class RunOutbox {
 public:
  // `outbox` outlives this.
  RunOutbox(std::uint32_t shards, Outbox& outbox) : shards_(shards), outbox_(outbox) {}
  RunOutbox(const RunOutbox&) = delete;

  void to_node(NodeId node, wire::Body body) { outbox_.send(Peer::of(node), {std::move(body), {}}); }
  void to_shard(ShardId shard, wire::Body body) { outbox_.send(Peer::of(shard), {std::move(body), {}}); }
  void to_shards(const wire::Body& body) {
    for (std::uint32_t k = 0; k < shards_; ++k) to_shard(ShardId(k), body);
  }

 private:
  const std::uint32_t shards_;
  Outbox& outbox_;
};

}  // namespace paceline::server
