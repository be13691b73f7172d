#include "server/checkpoint/writer.h"

#include <memory>
#include <utility>

#include "common/files/atomic_file.h"

namespace paceline::server {
namespace {

// Where shards share a folder, one that removes what it has of an earlier checkpoint takes the emptied folder
// of that name with it, perhaps just after this one has made it: it is made again. Beyond that something else
// is wrong.
constexpr int kTriesMax = 10;

Result<AtomicFile> make_and_open(const CheckpointFolder& folder, CheckpointId id, ShardId shard) {
  for (int tries = 1;; ++tries) {
    PACELINE_RETURN_IF_ERROR(folder.make(id));
    Result<AtomicFile> file = AtomicFile::create(folder.shard_file(id, shard));
    if (file.status().code() != StatusCode::kNotFound || tries == kTriesMax) return file;
  }
}

// Once its file is open the image is taken apart, and a folder that goes from under it costs this checkpoint.
Result<FileDigest> make_and_write(const CheckpointFolder& folder, CheckpointId id,
                                  const ShardFileOwner& owner, ShardImage image) {
  PACELINE_ASSIGN_OR_RETURN(AtomicFile file, make_and_open(folder, id, owner.shard));
  PACELINE_ASSIGN_OR_RETURN(const FileDigest written,
                            write_shard_file(std::move(file), owner, std::move(image)));
  PACELINE_RETURN_IF_ERROR(folder.sync());
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
