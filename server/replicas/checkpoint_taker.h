// CheckpointTaker: at a replica that comes back into a run that goes on from a checkpoint: it is given the files
// (checkpoint_pull.h) and reads its own, before it follows. Who follows says all the time that it lives.
//
// Thread: the server's loop.
#pragma once

#include <functional>
#include <optional>
#include <utility>

#include "server/checkpoint/shard_file.h"
#include "server/loop/background.h"
#include "server/loop/server_setup.h"
#include "server/replicas/checkpoint_pull.h"
#include "server/run/end_of_run.h"

namespace paceline::server {

class CheckpointTaker {
 public:
  // `say` tells the replica that serves; `ready` is called once the checkpoint is here and read. All outlive
  // this, and it all that `background` still calls.
  CheckpointTaker(const ServerSetup& setup, EndOfRun& end, Background& background,
                  std::function<Status(wire::Message)> send, std::function<void()> ready)
      : setup_(setup), end_(end), background_(background), send_(std::move(send)), ready_(std::move(ready)) {}

  // Of its own files, if this one has any, none need be the same.
  void on_resumes(const wire::ReplicaResumes& resumes);
  void on_piece(const wire::FilePiece& piece, const wire::Payload& payload);
  // The connection broke: another one gives it from the start.
  void broke() { pull_.reset(); }

  bool is_under_way() const { return pull_.has_value(); }
  // What this replica has been given and has read.
  const std::optional<CheckpointId>& has() const { return has_; }
  // Its file of that, once.
  std::optional<ShardFile> take_file() { return std::exchange(file_, std::nullopt); }

 private:
  void pull_more();
  void read_given();

  const ServerSetup& setup_;
  EndOfRun& end_;
  Background& background_;
  const std::function<Status(wire::Message)> send_;
  const std::function<void()> ready_;
  std::optional<CheckpointPull> pull_;  // what it is being given
  std::optional<CheckpointId> reads_;   // has been given, and is reading
  std::optional<CheckpointId> has_;
  std::optional<ShardFile> file_;
};

}  // namespace paceline::server
