// Peer: who a message comes from or goes to, once its connection has said so. Outbox: the one way in which
// the store and the authority send; the server's loop implements it with sockets, the tests with a list.
#pragma once

#include <compare>
#include <cstdint>
#include <string>

#include "common/ids.h"
#include "common/wire/messages.h"

namespace paceline::server {

struct Peer {
  enum class Kind : std::uint8_t { kNode, kShard };
  Kind kind = Kind::kNode;
  std::uint32_t number = 0;

  static Peer of(NodeId node) { return {Kind::kNode, node.value}; }
  static Peer of(ShardId shard) { return {Kind::kShard, shard.value}; }
  bool is_node() const { return kind == Kind::kNode; }
  NodeId node() const { return NodeId(number); }
  ShardId shard() const { return ShardId(number); }
  auto operator<=>(const Peer&) const = default;
};

inline std::string to_string(Peer peer) {
  return (peer.is_node() ? "node " : "shard ") + std::to_string(peer.number);
}

// Sends without waiting. A message that cannot be sent is the loop's concern: the peer's lease will tell. May
// be called from within a handler; what it leads to on this process happens after the handler has returned.
class Outbox {
 public:
  virtual ~Outbox() = default;
  virtual void send(Peer to, wire::Message message) = 0;
  // Breaks the connection of a node that has gone: what is still queued for it is dropped soon. It may fail
  // for want of descriptors, and does nothing where it is broken already.
  virtual void disconnect(NodeId node) = 0;
};

}  // namespace paceline::server
