// A shard's own file of the checkpoint that it goes on from, read in the background.
//
// Thread: the server's loop.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "server/checkpoint/shard_file.h"
#include "server/loop/background.h"
#include "server/loop/server_setup.h"
#include "server/store/shard_settings.h"

namespace paceline::server {

// `done` is called as Background says, with the file where it could be read. `setup` need not outlive this.
inline void read_checkpoint(
    const ServerSetup& setup, Background& background, CheckpointId id,
    std::function<void(const Status&, std::shared_ptr<std::optional<ShardFile>>, Ticks)> done) {
  const auto file = std::make_shared<std::optional<ShardFile>>();
  background.run(
      [file, path = setup.checkpoints().shard_file(id, setup.shard),
       wanted = ShardFileWanted{id, setup.run_fingerprint, setup.shard, {}, {}, {}},
       block_floats = shard_settings(setup.config).block_floats] {
        PACELINE_ASSIGN_OR_RETURN(*file, read_shard_file(path, wanted, block_floats));
        return Status::ok();
      },
      [file, done = std::move(done)](const Status& read, Ticks now) { done(read, file, now); });
}

}  // namespace paceline::server
