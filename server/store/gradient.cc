#include "server/store/gradient.h"

#include <algorithm>
#include <numeric>
#include <string>

#include "common/assert.h"
#include "common/params/vector_ops.h"

namespace paceline::server {

void Gradient::check_finite(std::int64_t piece) {
  Piece& it = pieces_[static_cast<std::size_t>(piece)];
  if (it.checked) return;
  it.check([](std::int64_t, std::span<const float> values) { return first_non_finite(values).has_value(); });
}

std::int64_t Gradient::first_unchecked() {
  const auto checked = [this](std::int64_t piece) {
    return pieces_[static_cast<std::size_t>(piece)].checked;
  };
  while (all_checked_ < piece_count() && checked(all_checked_)) ++all_checked_;
  return all_checked_;
}

std::int64_t Gradient::unchecked_floats() const {
  return std::accumulate(
      pieces_.begin(), pieces_.end(), std::int64_t{0},
      [](std::int64_t sum, const Piece& piece) { return piece.checked ? sum : sum + piece.payload.count(); });
}

std::optional<std::int64_t> Gradient::non_finite() const {
  for (auto piece = pieces_.rbegin(); piece != pieces_.rend(); ++piece) {
    if (piece->non_finite) return piece->non_finite;
  }
  return std::nullopt;
}

float Gradient::at(std::int64_t index) const {
  const auto piece = std::find_if(pieces_.begin(), pieces_.end(),
                                  [&](const Piece& it) { return it.begin <= index && index < it.end(); });
  PACELINE_ASSERT(piece != pieces_.end(), "element " + std::to_string(index) + " is not here");
  return piece->floats({index, index + 1}).front();
}

// Once seen it stays so, also where a node has written over what it lent.
void Gradient::Piece::find_in(const Range& stretch) {
  non_finite = stretch.begin + first_non_finite(floats(stretch)).value_or(0);
}

}  // namespace paceline::server
