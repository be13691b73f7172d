#include "server/replicas/checkpoint_giver.h"

#include <filesystem>
#include <utility>

#include "server/checkpoint/folder.h"
#include "server/replicas/checkpoint_pull.h"

namespace paceline::server {

void CheckpointGiver::offer(const wire::PeerId& to) {
  wire::Body answer =
      wire::Error{StatusCode::kUnavailable, setup_.name() + " has not read its checkpoint yet",
                  /*fatal=*/false};
  if (generation_.resumed) {
    const CheckpointFolder folder = setup_.checkpoints();
    std::error_code error;
    const auto bytes_of = [&](const std::filesystem::path& file) {
      const std::uintmax_t bytes = std::filesystem::file_size(file, error);
      return error ? 0 : static_cast<std::int64_t>(bytes);
    };
    const CheckpointId from = *generation_.from;
    answer = wire::ReplicaResumes{from, bytes_of(folder.shard_file(from, setup_.shard)),
                                  setup_.is_authority() ? bytes_of(folder.manifest(from)) : 0};
    if (std::exchange(to_, to) == to) {
      last_pull_ = clock_.now();  // it lives, and is reading what it was given
    } else {
      given_.reset();
    }
  }
  const Status sent = connections_.router().send(to, {std::move(answer), {}});
  if (!sent.is_ok()) setup_.log.debug(sent.message());  // it asks again
}

void CheckpointGiver::on_pull(const wire::FilePull& pull) {
  const CheckpointFolder folder = setup_.checkpoints();
  const bool manifest = pull.file == wire::CheckpointFile::kManifest;
  const std::filesystem::path file =
      manifest ? folder.manifest(*generation_.from) : folder.shard_file(*generation_.from, setup_.shard);
  // Each piece once, in order, and no more than are read.
  const std::pair next(manifest, pull.offset);
  const bool unread = connections_.router().waiting(to_) > 2 * CheckpointPull::kUnderWay;
  if (unread || (given_ && next <= *given_)) return;
  given_ = next;
  last_pull_ = clock_.now();
  Result<wire::Payload> piece = piece_of(file, pull);
  if (!piece.is_ok()) {
    return setup_.log.warn("a replica is not given its checkpoint: " + piece.status().message());
  }
  const Status sent =
      connections_.router().send(to_, {wire::FilePiece{pull.file, pull.offset}, *std::move(piece)});
  if (!sent.is_ok()) setup_.log.debug(sent.message());
}

}  // namespace paceline::server
