#include "server/checkpoint/writer.h"

#include <memory>
#include <utility>

namespace paceline::server {
namespace {

// Where shards share a folder, one that removes what it has of an earlier checkpoint takes the emptied folder
// of that name with it, perhaps just after this one has made it: it is made again. Beyond that something else
// is wrong.
constexpr int kTriesMax = 10;

Result<FileDigest> make_and_write(const CheckpointFolder& folder, CheckpointId id,
                                  const ShardFileOwner& owner, ShardImage image) {
  Result<FileDigest> written = internal_error("not tried");
  for (int tries = 0; tries < kTriesMax; ++tries) {
    PACELINE_RETURN_IF_ERROR(folder.make(id));
    // Nothing of the image is taken before its file is open, and a folder with a file in it stays.
    written = write_shard_file(folder.shard_file(id, owner.shard), owner, std::move(image));
    if (written.status().code() != StatusCode::kNotFound) break;
  }
  if (written.is_ok()) PACELINE_RETURN_IF_ERROR(folder.sync());
  return written;
}

}  // namespace

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
        PACELINE_ASSIGN_OR_RETURN(*digest, make_and_write(folder, id, owner, std::move(image)));
        return Status::ok();
      },
      [this, id, digest, done = std::move(done)](const Status& status, Ticks now) {
        busy_ = false;
        done(id, status.is_ok() ? Result<FileDigest>(*digest) : Result<FileDigest>(status), now);
      });
  return true;
}

}  // namespace paceline::server
