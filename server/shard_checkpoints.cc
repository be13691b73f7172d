// Images on their way to the disk.
#include "server/shard_checkpoints.h"

#include <utility>

#include "common/config/load.h"

namespace paceline::server {

ShardCheckpoints::ShardCheckpoints(ShardId id, const RunConfig& config, Background& background,
                                   Outbox& outbox, const Log& log)
    : id_(id),
      fingerprint_(fingerprint(config)),
      background_(background),
      outbox_(outbox),
      log_(log),
      folder_(config.run.out, fingerprint_) {}

void ShardCheckpoints::save(ShardImage image, Range range, std::uint64_t layout_hash) {
  if (!writer_) {
    writer_.emplace(background_, folder_, ShardFileOwner{layout_hash, fingerprint_, generation_, id_, range});
  }
  const Version version = image.version;
  const auto done = [this](CheckpointId id, const Result<FileDigest>& written, Ticks) {
    if (!written.is_ok()) return say({id_, id.version, {}, written.status().message()});
    log_.debug("shard " + to_string(id_) + " of the checkpoint of " + to_string(id) + " is written");
    say({id_, id.version, *written, ""});
  };
  if (!writer_->write(std::move(image), done)) {
    say({id_, version, {}, "its file of an older checkpoint is still being written"});
  }
}

void ShardCheckpoints::forget(CheckpointId oldest_kept) {
  background_.run([folder = folder_, id = id_, oldest_kept] { return folder.prune_shard(id, oldest_kept); },
                  [this](const Status& removed, Ticks) {
                    if (!removed.is_ok())
                      log_.warn("older checkpoints are not removed: " + removed.message());
                  });
}

}  // namespace paceline::server
