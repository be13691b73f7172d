// MemorySharing: whether a node and this server share memory (cluster.shared_memory). Whether it can be had is
// known only once it has been tried: it takes the same machine, and the same user.
//
// Thread: the server's loop.
#pragma once

#include <vector>

#include "server/sessions/peer_connections.h"

namespace paceline::server {

class MemorySharing {
 public:
  // All outlive this.
  MemorySharing(const ServerSetup& setup, PeerConnections& connections, const ShardService& service)
      : setup_(setup),
        connections_(connections),
        service_(service),
        open_(setup.config.cluster.nodes, false) {}

  // Of the node whose Join is being handled: whether we can read its memory; whether it can read ours, its
  // next message says. Errors: kFailedPrecondition and the like, where cluster.shared_memory is on.
  [[nodiscard]] Status share(const wire::PeerId& with, NodeId node);
  // With the first message after its Join; one that says goodbye says nothing of memory. Errors likewise.
  [[nodiscard]] Status confirm(const wire::PeerId& from, Peer peer, const wire::Body& body);
  void forget(NodeId node) { open_[node.value] = false; }

 private:
  [[nodiscard]] Status check(NodeId node, const Status& shared);

  const ServerSetup& setup_;
  PeerConnections& connections_;
  const ShardService& service_;
  std::vector<bool> open_;  // by node: we read its memory, and it has not said yet if it reads ours
};

}  // namespace paceline::server
