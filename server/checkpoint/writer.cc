#include "server/checkpoint/writer.h"

#include <memory>
#include <utility>

namespace paceline::server {

ShardWriter::ShardWriter(Background& background, CheckpointFolder folder, ShardFileOwner owner)
    : background_(background), folder_(std::move(folder)), owner_(owner) {}

bool ShardWriter::write(ShardImage image, Done done) {
  if (busy_) {
    ++skipped_;
    return false;
  }
  busy_ = true;
  const CheckpointId id{owner_.generation, image.version};
  const auto digest = std::make_shared<FileDigest>();
  background_.run(
      [folder = folder_, owner = owner_, id, digest, image = std::move(image)]() mutable {
        PACELINE_RETURN_IF_ERROR(folder.make(id));
        PACELINE_ASSIGN_OR_RETURN(
            *digest, write_shard_file(folder.shard_file(id, owner.shard), owner, std::move(image)));
        return Status::ok();
      },
      [this, id, digest, done = std::move(done)](const Status& status, Ticks now) {
        busy_ = false;
        done(id, status.is_ok() ? Result<FileDigest>(*digest) : Result<FileDigest>(status), now);
      });
  return true;
}

}  // namespace paceline::server
