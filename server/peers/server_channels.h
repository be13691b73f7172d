// ServerChannels: what the authority and the other shards have said to each other and heard of each other
// (reliable_channel.h), as one server has it: at another shard with the authority, at the authority with each
// other shard. It follows from the events of the shard's log alone, so a replica that follows has the same.
//
// Pure. Thread: one at a time (the server's loop).
#pragma once

#include <cstdint>
#include <map>

#include "common/ids.h"
#include "common/status.h"
#include "common/wire/messages.h"
#include "server/peers/peer.h"
#include "server/peers/reliable_channel.h"

namespace paceline::server {

class ServerChannels {
 public:
  explicit ServerChannels(ShardId self) : self_(self) {}

  // Another shard's, with the authority.
  ReliableChannel& authority() { return authority_; }
  const ReliableChannel& authority() const { return authority_; }
  // The authority's, with another shard.
  ReliableChannel& with(ShardId shard) { return shards_[shard]; }
  // It joins anew.
  void begin(ShardId shard) { shards_[shard] = ReliableChannel(); }
  // Whether something that it was told counts as unheard.
  bool lacks(ShardId shard) const {
    const auto found = shards_.find(shard);
    return found != shards_.end() && !found->second.unacked().empty();
  }

  // That `who`, a server, has heard so many. Errors: ReliableChannel::on_ack().
  [[nodiscard]] Status on_ack(ShardId who, std::int64_t count) {
    return (self_ == kAuthority ? with(who) : authority_).on_ack(count);
  }

  // At a replica that follows: what the one that serves has heard, or said.
  void follow(const wire::LogEntry& logged, const wire::Message& event) {
    using As = wire::LogEntry::As;
    if (logged.as == As::kSent) return authority_.on_send(event);
    if (!logged.shard) return;
    if (logged.as == As::kToShard && self_ != kAuthority) (void)authority_.on_receive(event);
    if (logged.as == As::kToAuthority && *logged.shard != self_) (void)with(*logged.shard).on_receive(event);
  }

 private:
  const ShardId self_;
  ReliableChannel authority_{ReliableChannel::End::kShard};
  std::map<ShardId, ReliableChannel> shards_;
};

}  // namespace paceline::server
