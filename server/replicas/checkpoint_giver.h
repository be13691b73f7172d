// CheckpointGiver: at a replica that serves and goes on from a checkpoint: it gives the checkpoint's files to the
// one that is to follow it from there (checkpoint_pull.h).
//
// Thread: the server's loop.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "server/run/run_generation.h"
#include "server/sessions/peer_connections.h"

namespace paceline::server {

class CheckpointGiver {
 public:
  // All outlive this.
  CheckpointGiver(const ServerSetup& setup, const RunClock& clock, PeerConnections& connections,
                  const RunGeneration& generation)
      : setup_(setup), clock_(clock), connections_(connections), generation_(generation) {}

  // Tells the replica behind that connection what it is to have first.
  void offer(const wire::PeerId& to);
  // Whether that is to whom it is being given.
  bool is_to(const wire::PeerId& from) const { return !from.empty() && from == to_; }
  void on_pull(const wire::FilePull& pull);
  void stop() { to_.clear(); }
  // When it was last seen.
  Ticks last_pull() const { return last_pull_; }

 private:
  const ServerSetup& setup_;
  const RunClock& clock_;
  PeerConnections& connections_;
  const RunGeneration& generation_;
  wire::PeerId to_;
  Ticks last_pull_;
  std::optional<std::pair<bool, std::int64_t>> given_;  // the last piece: of the manifest, from which byte on
};

}  // namespace paceline::server
