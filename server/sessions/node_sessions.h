// NodeSessions: how nodes are let into a shard, and how they go on over another connection where the one
// before broke while both ends live: the same process, told by its incarnation and, where the run has keys,
// its key.
//
//   node                                     server
//   (connection 1 breaks)
//   Join{goes_on} over connection 2      ->  connection 1 is given up: what of it was not read counts for
//                                            nothing, and neither side reads any more what it lent the other;
//                                            a gradient that was here in part is forgotten
//                                        <-  Welcome; the authority: what the node may not have heard, again
//   what may not have been heard, again  ->  what was is dropped (GradientStore: each stamp counts once)
//
// So whatever was under way when connection 1 broke, the server has read a beginning of what was said over
// it, and all that is not known to be in that beginning comes after the Join. Who was lost (silent for a
// lease, refused for good) is lost, whatever connection it comes over.
//
// Nodes of a run that is resumed are let in at any time, and welcomed once there is something to go on from.
//
// Thread: the server's loop.
#pragma once

#include <cstdint>
#include <vector>

#include "common/params/layout.h"
#include "server/loop/own_authority.h"
#include "server/run/run_generation.h"
#include "server/service/shard_service.h"
#include "server/sessions/late_joins.h"
#include "server/sessions/memory_sharing.h"
#include "server/sessions/peer_connections.h"

namespace paceline::server {

class NodeSessions {
 public:
  // All outlive this.
  NodeSessions(const ServerSetup& setup, const RunClock& clock, ReplicaRole& role,
               PeerConnections& connections, ShardService& service, OwnAuthority& authority,
               const RunGeneration& generation);

  void on_join(const wire::PeerId& from, const wire::Join& join, Ticks now);
  // A message of a node that is not welcomed yet, since the run is still to be resumed.
  void on_waiting(Peer from, const wire::Body& body);
  bool is_waiting(Peer peer) const;
  // Says whether it was one that waits to be welcomed.
  bool forget_waiting(Peer peer);
  // There is something to go on from.
  void welcome_waiting(Ticks now);

  LateJoins& late_joins() { return late_joins_; }
  const LateJoins& late_joins() const { return late_joins_; }
  MemorySharing& sharing() { return sharing_; }
  // At the authority.
  void on_heartbeat(NodeId from, const wire::Heartbeat& beat);

 private:
  struct Waiting {
    wire::PeerId connection;
    wire::Join join;
    Layout layout;
  };
  [[nodiscard]] bool count_rejected(const wire::PeerId& from, const wire::Join& join, Ticks now);
  void refuse(const wire::PeerId& from, const wire::Join& join, const Status& why);
  void send_refusal(const wire::Join& join, const Status& why);
  void welcome(const wire::Join& join, const Layout& layout, Ticks now);
  bool goes_on(const wire::PeerId& from, const wire::Join& join) const;
  void on_reconnect(const wire::PeerId& from, const wire::Join& join, Ticks now);
  void welcome_again(const wire::Join& join);
  void evict_previous(const wire::PeerId& from, const wire::Join& join);

  const ServerSetup& setup_;
  const RunClock& clock_;
  ReplicaRole& role_;
  PeerConnections& connections_;
  ShardService& service_;
  OwnAuthority& authority_;
  const RunGeneration& generation_;
  LateJoins late_joins_;
  MemorySharing sharing_;
  std::vector<Waiting> waiting_;  // nodes that are in, and are answered when there is something to go on from
};

}  // namespace paceline::server
