// Losses: which peers of a server are to be taken for lost: those refused for good, those that could not be sent to and
// have not come back, and those that are silent; and how long each may take to come back. Who acts on it is ServerLoop.
//
// Thread: the server's loop.
#pragma once

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "common/ids.h"
#include "common/wire/messages.h"
#include "server/loop/server_setup.h"
#include "server/peers/membership.h"
#include "server/peers/unreachable.h"

namespace paceline::server {

enum class Loss { kForGood, kOutOfReach };  // wire::NodeLost::out_of_reach

class Losses {
 public:
  // Both outlive this.
  Losses(const ServerSetup& setup, const Membership& members) : setup_(setup), members_(members) {}

  // Refused for good in this handler, and why.
  void evict(Peer peer, std::string why) { evicted_.emplace_back(peer, std::move(why)); }
  bool has_evicted() const { return !evicted_.empty(); }
  std::vector<std::pair<Peer, std::string>> take_evicted() { return std::exchange(evicted_, {}); }

  // A message to `peer` was refused by its socket.
  void unsent(Peer peer, const Status& why, Ticks now);
  Unreachable& unreachable() { return unreachable_; }
  // What a node has said: of an all-reduce, that its connection to another one has ended; else nothing follows.
  void ended_elsewhere(const wire::Body& report, Ticks now);
  // Those who could not be sent to and have not come back. Once in each tick.
  std::vector<Unreachable::Entry> take_unreachable(Ticks now);
  // Those who are here and have been silent for longer than the lease, and than they may take to come back.
  std::vector<Membership::Silence> silent(Ticks now) const;
  // After why a peer is to be lost that takes nothing: "; silent for 3.2 s" where it is cut off, or stands
  // still; else nothing.
  std::string long_silence_of(Peer peer, Ticks now) const;

  // How long a node, or another shard, whose connection to `server` broke may take to come back.
  std::chrono::nanoseconds time_to_reconnect(ShardId server) const;
  // The same of another shard, where another replica may be about to serve in its place.
  std::chrono::nanoseconds given_to_return() const;

 private:
  static constexpr std::chrono::milliseconds kComesBackWithin{1500};
  static constexpr int kBeatsToComeBack = 2;  // and as many heartbeats, over a network

  const ServerSetup& setup_;
  const Membership& members_;
  Unreachable unreachable_;
  std::vector<std::pair<Peer, std::string>> evicted_;
};

}  // namespace paceline::server
