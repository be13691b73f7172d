// Pieces in order, and what makes a file of them.
#include "server/authority/final_model.h"

#include <algorithm>
#include <utility>

#include "common/params/model_file.h"

namespace paceline::server {
namespace {

constexpr std::uint64_t kRequest = 1;  // the authority asks only once

}  // namespace

void FinalModel::request(const Layout& layout, const std::vector<Range>& shards, Version version,
                         Outbox& outbox) {
  requested_ = true;
  version_ = version;
  layout_ = layout;
  for (const Range range : shards) slices_.push_back({range, 0, false, {}});
  for (std::uint32_t k = 0; k < shards.size(); ++k) {
    outbox.send(Peer::of(ShardId(k)), {wire::Pull{kRequest, version, /*exact=*/true, kNoRevision}, {}});
  }
}

Status FinalModel::add(const wire::Parameters& piece, wire::Payload payload) {
  const std::string what = "final model from shard " + to_string(piece.shard);
  if (!requested_ || piece.shard.value >= slices_.size() || piece.request != kRequest ||
      piece.version != version_) {
    return invalid_argument(what + ": version " + to_string(piece.version) + " was not asked for");
  }
  if (payload.encoding != Encoding::kFp32) return invalid_argument(what + ": not as float32");
  Slice& slice = slices_[piece.shard.value];
  const std::int64_t floats = payload.count();
  if (slice.complete || piece.offset != slice.received || piece.offset + floats > slice.range.size() ||
      piece.last != (piece.offset + floats == slice.range.size())) {
    return out_of_order(what + ": " + std::to_string(floats) + " floats at " + std::to_string(piece.offset) +
                        ", expected the piece at " + std::to_string(slice.received) + " of " +
                        std::to_string(slice.range.size()));
  }
  slice.pieces.push_back(std::move(payload));
  slice.received += floats;
  slice.complete = piece.last;
  return Status::ok();
}

bool FinalModel::is_ready() const {
  return requested_ && file_ == File::kMissing &&
         std::all_of(slices_.begin(), slices_.end(), [](const Slice& s) { return s.complete; });
}

std::vector<ShardId> FinalModel::missing() const {
  std::vector<ShardId> shards;
  for (std::uint32_t k = 0; k < slices_.size(); ++k) {
    if (!slices_[k].complete) shards.emplace_back(k);
  }
  return shards;
}

// The parameters are the work's own from now on.
void FinalModel::write(Background& background, const std::filesystem::path& folder, const std::string& model,
                       Revision revision, Background::Done done, Background::Here here) {
  std::vector<wire::Payload> pieces;
  for (Slice& slice : slices_) {
    for (wire::Payload& piece : std::exchange(slice.pieces, {})) pieces.push_back(std::move(piece));
  }
  ModelInfo info{model, version_, revision, layout_};
  file_ = File::kBeingWritten;
  background.run(
      [file = folder / "model.bin", info = std::move(info), pieces = std::move(pieces)] {
        std::vector<std::span<const float>> values;
        for (const wire::Payload& piece : pieces) values.push_back(piece.floats());
        return write_model_file(file, info, values);
      },
      [this, done = std::move(done)](const Status& written, Ticks now) {
        if (written.is_ok()) file_ = File::kWritten;
        done(written, now);
      },
      std::move(here));
}

}  // namespace paceline::server
