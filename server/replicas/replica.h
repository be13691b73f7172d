// Replica: what a server that is one of its shard's replicas has besides (server_loop_replicas.cc,
// server_loop_follows.cc).
//
// Thread: the server's loop.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/incarnation.h"
#include "common/instant.h"
#include "common/wire/messages.h"
#include "common/wire/transport.h"
#include "server/checkpoint/shard_file.h"
#include "server/peer.h"
#include "server/replicas/checkpoint_pull.h"
#include "server/replicas/leader_election.h"
#include "server/replicas/replicated_background.h"

namespace paceline::server {

struct Replica {
  Replica(std::uint32_t which, ReplicatedBackground authority_background)
      : number(which), background(std::move(authority_background)) {}

  const std::uint32_t number;                           // which of the shard's replicas
  const std::uint64_t incarnation = new_incarnation();  // as etcd knows it
  bool acted = false;                                   // when that was last looked at
  Ticks heard{};                                        // of the one that serves; by one that serves, when it last could
  std::unique_ptr<LeaderElection> election;
  ReplicatedBackground background;  // the authority's

  // One that serves.
  // One that resumes: who pulls the checkpoint's files, and when it last did; and who has asked in vain to
  // follow, which a hand-over would let it.
  wire::PeerId pulls;
  Ticks pulled;
  bool is_asked = false;
  std::optional<Ticks> asked_for_hand_over;            // or when it may be again
  std::optional<std::pair<bool, std::int64_t>> given;  // the last piece: of the manifest, from which byte on
  Status refused;                                      // by the authority: nobody can come back any more
  bool deposed = false;                                // another one serves: a hand-over is that one's

  // One that follows.
  std::unique_ptr<wire::DealerSocket> serving;
  std::optional<CheckpointPull> pull;  // what it is being given
  std::optional<CheckpointId> reads;   // has been given, and is reading
  std::optional<CheckpointId> has;     // and has
  std::optional<ShardFile> file;       // of that, until it is told that it goes on from it
  bool broken = false;        // the connection to it
  std::uint64_t unsaved = 0;  // checkpoints that the one that serves has, and this one has not
  Status fault;               // of the shard, in this turn
};

// Where a peer that has joined a shard is before it has come to this replica of it: nothing can be sent
// there.
inline wire::PeerId elsewhere(Peer peer) { return "elsewhere: " + to_string(peer); }
inline bool is_elsewhere(const wire::PeerId& connection) { return connection.starts_with("elsewhere: "); }

}  // namespace paceline::server
