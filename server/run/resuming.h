// Resuming: the way of a resumed run to where it goes on.
//
//   before sockets   every server reads its own files; the authority reads the manifests
//   shard 1          ShardJoin{resumes, intact} -> the authority, when all have come, chooses
//                 <- ShardWelcome{generation, resume_from}
//   each server      reads its file of that checkpoint, in the background, and goes on from it
//   nodes            are let in at any time, and welcomed after that (sessions/node_sessions.h)
//
// Thread: the server's loop.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "server/checkpoint/shard_file.h"
#include "server/loop/background.h"
#include "server/loop/own_authority.h"
#include "server/peers/server_channels.h"
#include "server/run/end_of_run.h"
#include "server/run/resume.h"
#include "server/run/run_generation.h"
#include "server/service/shard_checkpoints.h"
#include "server/sessions/node_sessions.h"

namespace paceline::server {

class Resuming {
 public:
  // What this shard's service says of the file that it is to go on from.
  using ShardStatus = std::function<void(const Status&)>;
  // All outlive this, and it all that `background` still calls.
  Resuming(const ServerSetup& setup, const RunClock& clock, EndOfRun& end, ReplicaRole& role,
           PeerConnections& connections, NodeSessions& sessions, ServerChannels& channels,
           ShardService& service, ShardCheckpoints& checkpoints, OwnAuthority& authority,
           Background& background, RunGeneration& generation, ShardStatus shard_status);

  // Before anybody is connected to. Errors: kFailedPrecondition there is nothing to go on from, where nobody
  // else is to be asked; kUnavailable the run directory cannot be read.
  [[nodiscard]] Status find_checkpoints();
  // This shard's own files that are intact.
  const std::vector<wire::IntactFile>& intact() const { return own_files_.intact; }

  // ---- at the authority
  // Before it has chosen: which shards have not said what they have.
  std::vector<ShardId> missing() const { return choice_ ? choice_->missing() : std::vector<ShardId>(); }
  // A shard has been let in.
  void on_shard(const wire::PeerId& from, const wire::ShardJoin& join, Ticks now);
  // A message of a shard while there is no authority yet.
  void on_early(Peer from, const wire::Message& message);
  // Chooses, once nobody is missing.
  void choose(Ticks now);
  // Of another replica's choice, or of its own: the authority goes on from there.
  [[nodiscard]] Status resume_authority(ResumePoint point, Ticks now);
  // In each tick before it has chosen.
  void check(Ticks now);
  void fail(const Status& why);

  // ---- at each server
  void go_on_from(CheckpointId id, std::uint64_t generation);
  // Why the run is to stop, told to one that goes on before it could see to it.
  void stop_when_resumed(std::string reason) { is_to_stop_ = std::move(reason); }
  const std::string& is_to_stop() const { return is_to_stop_; }

 private:
  [[nodiscard]] Status begin(ResumePoint point, Ticks now);
  void on_file_read(Status read, std::shared_ptr<std::optional<ShardFile>> file, Ticks now);

  const ServerSetup& setup_;
  const RunClock& clock_;
  EndOfRun& end_;
  ReplicaRole& role_;
  PeerConnections& connections_;
  NodeSessions& sessions_;
  ServerChannels& channels_;
  ShardService& service_;
  ShardCheckpoints& checkpoints_;
  OwnAuthority& authority_;
  Background& background_;
  RunGeneration& generation_;
  const ShardStatus shard_status_;
  OwnFiles own_files_;
  std::optional<ResumeChoice> choice_;  // the authority's, until it is made
  std::string is_to_stop_;
};

}  // namespace paceline::server
