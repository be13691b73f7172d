// ServerView: what a server says of itself: how the run goes, what is waited for, and who was heard of when. What
// each part waits for the parts say themselves. Nothing here decides anything.
//
// Thread: the server's loop.
#pragma once

#include <memory>
#include <vector>

#include "common/live/run_status.h"
#include "common/log/stall_log.h"
#include "common/traffic.h"
#include "server/peers/last_seen.h"
#include "server/replicas/replication.h"
#include "server/run/resuming.h"
#include "server/run/run_display.h"
#include "server/shards/authority_link.h"
#include "server/shards/shard_peers.h"

namespace paceline::server {

class ServerView {
 public:
  // All outlive this; `replication` may be null.
  struct Of {
    const ServerSetup& setup;
    const EndOfRun& end;
    const PeerConnections& connections;
    const ShardPeers& shards;
    const AuthorityLink& link;
    const ShardService& service;
    const OwnAuthority& authority;
    const RunGeneration& generation;
    const Resuming& resuming;
    const ReplicaRole& role;
    const std::unique_ptr<Replication>& replication;
  };
  explicit ServerView(Of server) : server_(server) {}

  LastSeen last_seen(Ticks now) const;
  std::vector<Wait> waits(Ticks now) const;
  // `stall`: the wait that has become long (RunDisplay).
  RunStatus status(const std::string& stall, Ticks now) const;
  // By all shards, and, as the authority has heard, by the nodes of an all-reduce.
  Traffic moved() const;

 private:
  const Of server_;
};

}  // namespace paceline::server
