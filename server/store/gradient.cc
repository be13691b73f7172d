#include "server/store/gradient.h"

#include "common/params/vector_ops.h"

namespace paceline::server {

void Gradient::look_at(std::int64_t piece) {
  Piece& it = pieces_[static_cast<std::size_t>(piece)];
  if (!it.looked_at) it.look([](const Range&) {});
}

std::int64_t Gradient::not_looked_at() const {
  const auto first =
      std::find_if(pieces_.begin(), pieces_.end(), [](const Piece& piece) { return !piece.looked_at; });
  return first - pieces_.begin();
}

std::optional<std::int64_t> Gradient::non_finite() const {
  for (auto piece = pieces_.rbegin(); piece != pieces_.rend(); ++piece) {
    if (piece->non_finite) return piece->non_finite;
  }
  return std::nullopt;
}

void Gradient::Piece::look_at(const Range& stretch) {
  if (non_finite) return;
  if (const auto index = first_non_finite(floats(stretch))) non_finite = stretch.begin + *index;
}

}  // namespace paceline::server
