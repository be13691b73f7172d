// ShardPeers: at the authority, the other shards: how they join, what they say (server/peers/server_channels.h), and
// how one goes on over another connection where the one before broke while both live. A shard that does not come back
// is lost, as one that is silent for a lease.
//
// Thread: the server's loop.
#pragma once

#include <map>

#include "common/traffic.h"
#include "server/loop/own_authority.h"
#include "server/peers/server_channels.h"
#include "server/run/run_generation.h"
#include "server/sessions/peer_connections.h"

namespace paceline::server {

class ShardPeers {
 public:
  // All outlive this.
  ShardPeers(const ServerSetup& setup, const RunClock& clock, ReplicaRole& role, PeerConnections& connections,
             ServerChannels& channels, OwnAuthority& authority, const RunGeneration& generation)
      : setup_(setup),
        clock_(clock),
        role_(role),
        connections_(connections),
        channels_(channels),
        authority_(authority),
        generation_(generation) {}

  // True: it is let in, and waits for what the run goes on from.
  [[nodiscard]] bool on_join(const wire::PeerId& from, const wire::ShardJoin& join, Ticks now);
  // Any other message of a shard that is in, but its heartbeats. Without an authority, which is yet to know
  // what the run goes on from, it counts as heard, and no more.
  void on(Peer from, const wire::Message& message, Ticks now);
  // Nothing before there is an authority.
  void on_heartbeat(Peer from, const wire::Heartbeat& beat);
  // By the other shards, as far as they have said.
  Traffic moved() const;

 private:
  // A shard says it once over a connection, and what it says a second time is not answered.
  [[nodiscard]] bool count_rejected(const wire::PeerId& from, const wire::ShardJoin& join);
  void on_reconnect(const wire::PeerId& from, const wire::ShardJoin& join, Ticks now);
  void send_ack(Peer shard);

  const ServerSetup& setup_;
  const RunClock& clock_;
  ReplicaRole& role_;
  PeerConnections& connections_;
  ServerChannels& channels_;
  OwnAuthority& authority_;
  const RunGeneration& generation_;
  std::map<ShardId, Traffic> moved_;
};

}  // namespace paceline::server
