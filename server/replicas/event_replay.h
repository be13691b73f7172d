// EventReplay: at a replica that follows: does with this server's shard, and its authority, what an event of the
// one that serves says, and says nothing.
//
// Thread: the server's loop.
#pragma once

#include <cstdint>
#include <functional>

#include "server/loop/own_authority.h"
#include "server/peers/server_channels.h"
#include "server/replicas/checkpoint_taker.h"
#include "server/replicas/replica_role.h"
#include "server/replicas/replicated_background.h"
#include "server/replicas/saved_comparison.h"
#include "server/run/resuming.h"
#include "server/run/run_generation.h"
#include "server/service/shard_checkpoints.h"
#include "server/sessions/node_sessions.h"
#include "server/shards/authority_link.h"

namespace paceline::server {

class EventReplay {
 public:
  // What an event changes. All outlive the replay.
  struct Server {
    const ServerSetup& setup;
    ReplicaRole& role;
    PeerConnections& connections;
    NodeSessions& sessions;
    ServerChannels& channels;
    AuthorityLink& link;
    ShardService& service;
    ShardCheckpoints& checkpoints;
    OwnAuthority& authority;
    RunGeneration& generation;
    Resuming& resuming;
    SavedComparison& comparison;
    std::function<void(Peer, wire::Message)> to_shard;   // the shard is told
    std::function<void(const wire::RunOver&)> run_over;  // another shard than the authority's is told
    std::function<void(Ticks)> note_progress;            // after a tick of the authority
  };
  // `taker` and `background` outlive this.
  EventReplay(Server server, CheckpointTaker& taker, ReplicatedBackground& background)
      : server_(std::move(server)), taker_(taker), background_(background) {}

  // Errors: this replica is not in the state of the one that serves, or cannot come to it.
  [[nodiscard]] Status apply(wire::Message event, Ticks at);
  // `why`, as it is told.
  static Status in_another_state(Status why);

 private:
  [[nodiscard]] Status local_event(Peer who, const wire::LocalEvent& event, Ticks at);
  [[nodiscard]] Status to_authority(Peer who, const wire::LocalEvent& event, Ticks at);
  [[nodiscard]] Status join(const wire::Body& body, bool goes_on, Ticks at);
  [[nodiscard]] Status resumed(std::uint64_t generation, Ticks at);

  const Server server_;
  CheckpointTaker& taker_;
  ReplicatedBackground& background_;
};

}  // namespace paceline::server
