// The two speakers of a server's process: its shard, and at shard 0 the authority. What one says to the other goes
// through a queue in memory instead of a socket; both speak the very messages that travel between processes,
// so there is one path of the data, not two.
//
// Thread: the server's loop.
#pragma once

#include <utility>

#include "server/peers/peer.h"

namespace paceline::server {

enum class Speaker { kShard, kAuthority };

// What one of them sends through.
class SpeakerOutbox final : public Outbox {
 public:
  // Where what is sent goes.
  class Route {
   public:
    virtual ~Route() = default;
    virtual void send(Speaker speaker, Peer to, wire::Message message) = 0;
    virtual void disconnect(NodeId node) = 0;
  };
  // `route` outlives this.
  SpeakerOutbox(Speaker speaker, Route& route) : speaker_(speaker), route_(route) {}

  void send(Peer to, wire::Message message) override { route_.send(speaker_, to, std::move(message)); }
  void disconnect(NodeId node) override { route_.disconnect(node); }

 private:
  const Speaker speaker_;
  Route& route_;
};

}  // namespace paceline::server
