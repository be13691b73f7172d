// A shard's part in checkpoints: its images are written while training goes on (checkpoint/writer.h), the
// authority is told of each, and files that are needed no more are removed: older ones when the authority
// says so, which it does of each checkpoint that is complete, and the last one when another is saved before
// it has. So a checkpoint that fails on another machine leaves nothing here for longer than until the next.
//
// Thread: the server's loop.
#pragma once

#include <cstdint>
#include <optional>

#include "common/config/run_config.h"
#include "common/log/log.h"
#include "common/params/partition.h"
#include "common/wire/messages.h"
#include "server/checkpoint/writer.h"
#include "server/loop/background.h"
#include "server/peers/peer.h"
#include "server/store/shard_image.h"

namespace paceline::server {

class ShardCheckpoints {
 public:
  // All outlive this, and this all that `background` still calls.
  ShardCheckpoints(ShardId id, const RunConfig& config, Background& background, Outbox& outbox,
                   const Log& log);

  // The run's, from the authority: of what is written. Before the first save(); 1 until then.
  void set_generation(std::uint64_t generation) { generation_ = generation; }

  // Has the image written and the authority told (Saved), also when it could not be, or an older one still is
  // being written. `range` and layout are the same at each call.
  void save(ShardImage image, Range range, std::uint64_t layout_hash);
  // The last one saved is complete. Removes this shard's files of older checkpoints, in the background.
  void forget(CheckpointId oldest_kept, std::vector<CheckpointId> spared = {});
  // The same of all: a run begins.
  void forget_all();

 private:
  void abandon(CheckpointId id);
  void report(const wire::Saved& saved) { outbox_.send(Peer::of(kAuthority), {saved, {}}); }

  const ShardId id_;
  const std::uint64_t fingerprint_;
  Background& background_;
  Outbox& outbox_;
  const Log& log_;
  const CheckpointFolder folder_;
  std::uint64_t generation_ = 1;
  std::optional<ShardWriter> writer_;
  std::optional<CheckpointId> incomplete_;  // the last one saved, as far as is known
};

}  // namespace paceline::server
