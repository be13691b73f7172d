// ShardWriter: writes a shard's images while training goes on, by another thread (server/loop/background.h), one
// at a time. A disk that is slower than the interval between two saves costs checkpoints, not memory: what is
// to be saved while one is being written is skipped and counted.
//
// Thread: the loop's. Outlives what it has begun.
#pragma once

#include <cstdint>
#include <functional>

#include "common/instant.h"
#include "common/status.h"
#include "server/checkpoint/folder.h"
#include "server/checkpoint/shard_file.h"
#include "server/loop/background.h"
#include "server/store/shard_image.h"

namespace paceline::server {

class ShardWriter {
 public:
  // `background` outlives this, and calls nothing after it.
  ShardWriter(Background& background, CheckpointFolder folder, ShardFileOwner owner);
  ShardWriter(const ShardWriter&) = delete;

  using Done = std::function<void(CheckpointId id, const Result<FileDigest>& written, Ticks now)>;
  // Has the image written as the shard's file of its version, and `done` called, on this thread and never
  // from within, once it is on disk or could not be written (errors as write_shard_file() and
  // CheckpointFolder::make()). False, and nothing else, when another one is still being written.
  [[nodiscard]] bool write(ShardImage image, Done done);

  bool busy() const { return busy_; }
  std::int64_t skipped() const { return skipped_; }

 private:
  Background& background_;
  const CheckpointFolder folder_;
  const ShardFileOwner owner_;
  bool busy_ = false;
  std::int64_t skipped_ = 0;
};

}  // namespace paceline::server
