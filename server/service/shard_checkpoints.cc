// Images on their way to the disk.
#include "server/service/shard_checkpoints.h"

#include <limits>
#include <utility>

#include "common/config/load.h"

namespace paceline::server {

ShardCheckpoints::ShardCheckpoints(ShardId id, const RunConfig& config, Background& background,
                                   Outbox& outbox, const Log& log)
    : id_(id),
      fingerprint_(fingerprint(config, AgreedBy::kRun)),
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
    if (!written.is_ok()) return report({id_, id.version, {}, written.status().message()});
    log_.debug("shard " + to_string(id_) + " of the checkpoint of " + to_string(id) + " is written");
    report({id_, id.version, *written, ""});
  };
  if (!writer_->write(std::move(image), done)) {
    return report({id_, version, {}, "its file of an older checkpoint is still being written"});
  }
  const CheckpointId id{generation_, version};
  const auto failed = std::exchange(incomplete_, id);
  // What is here the authority has removed; and of a run's last version, saved once more, the new file is written over
  // the old one.
  if (failed && failed != id && id_ != kAuthority) abandon(*failed);
}

void ShardCheckpoints::forget_all() { forget({std::numeric_limits<std::uint64_t>::max(), Version(0)}); }

void ShardCheckpoints::abandon(CheckpointId id) {
  background_.run([folder = folder_, shard = id_, id] { return folder.abandon_shard(shard, id); },
                  [this](const Status& removed, Ticks) {
                    if (!removed.is_ok()) log_.warn(removed.message());
                  });
}

void ShardCheckpoints::forget(CheckpointId oldest_kept, std::vector<CheckpointId> spared) {
  incomplete_.reset();
  background_.run([folder = folder_, id = id_, oldest_kept,
                   spared = std::move(spared)] { return folder.prune_shard(id, oldest_kept, spared); },
                  [this](const Status& removed, Ticks) {
                    if (!removed.is_ok())
                      log_.warn("older checkpoints are not removed: " + removed.message());
                  });
}

}  // namespace paceline::server
