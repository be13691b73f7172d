// Slices into one vector, and the vector into a file.
#include "server/authority/final_model.h"

#include <algorithm>

#include "common/params/model_file.h"

namespace paceline::server {
namespace {

constexpr std::uint64_t kRequest = 1;  // the authority asks only once

}  // namespace

void FinalModel::request(const Layout& layout, std::uint32_t shards, Version version, Outbox& outbox) {
  requested_ = true;
  version_ = version;
  layout_ = layout;
  parameters_.resize(static_cast<std::size_t>(layout.size()));
  for (const Range range : partition(layout.size(), shards)) slices_.push_back({range});
  for (std::uint32_t k = 0; k < shards; ++k) {
    outbox.send(Peer::of(ShardId(k)), {wire::Pull{kRequest, version, /*exact=*/true, kNoRevision}, {}});
  }
}

Status FinalModel::add(const wire::Parameters& piece, std::span<const float> values) {
  const std::string what = "final model from shard " + to_string(piece.shard);
  if (!requested_ || piece.shard.value >= slices_.size() || piece.request != kRequest ||
      piece.version != version_) {
    return invalid_argument(what + ": version " + to_string(piece.version) + " was not asked for");
  }
  Slice& slice = slices_[piece.shard.value];
  const auto floats = static_cast<std::int64_t>(values.size());
  if (slice.complete || piece.offset != slice.received || piece.offset + floats > slice.range.size() ||
      piece.last != (piece.offset + floats == slice.range.size())) {
    return out_of_order(what + ": " + std::to_string(floats) + " floats at " + std::to_string(piece.offset) +
                        ", expected the piece at " + std::to_string(slice.received) + " of " +
                        std::to_string(slice.range.size()));
  }
  std::copy(values.begin(), values.end(), parameters_.begin() + (slice.range.begin + piece.offset));
  slice.received += floats;
  slice.complete = piece.last;
  return Status::ok();
}

bool FinalModel::complete() const {
  return requested_ && std::all_of(slices_.begin(), slices_.end(), [](const Slice& s) { return s.complete; });
}

Status FinalModel::write(const std::filesystem::path& folder, const std::string& model,
                         Revision revision) const {
  return write_model_file(folder / "model.bin", {model, version_, revision, layout_}, parameters_);
}

}  // namespace paceline::server
