#include "common/cache/own_updates.h"

#include <algorithm>

#include "common/assert.h"

namespace paceline::cache {

std::int64_t missing_max(std::optional<Threshold> versioned, std::optional<Threshold> eager) {
  constexpr std::int64_t kEagerLeast = 8;
  const auto waiting = [](Threshold s) { return s.is_infinite() ? 2 : s.value() + 2; };
  const std::int64_t in_turn = versioned ? waiting(*versioned) : 0;
  return eager ? std::max({in_turn, waiting(*eager), kEagerLeast}) : in_turn;
}

bool must_reapply(Clock own, Clock slice_applied) { return own >= slice_applied; }

void OwnUpdates::remember(Clock stamp) {
  PACELINE_ASSERT(stamps_.empty() || stamp > stamps_.back(),
                  "own update stamped " + to_string(stamp) + " after " + to_string(stamps_.back()));
  stamps_.push_back(stamp);
}

std::size_t OwnUpdates::drop_contained(const SnapshotStamp& snapshot, std::uint32_t thread) {
  const Clock contained = snapshot.applied_everywhere(thread);
  std::size_t dropped = 0;
  while (!stamps_.empty() && !must_reapply(stamps_.front(), contained)) {
    stamps_.pop_front();
    ++dropped;
  }
  return dropped;
}

std::vector<std::size_t> OwnUpdates::to_reapply(Clock slice_applied) const {
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < stamps_.size(); ++i) {
    if (must_reapply(stamps_[i], slice_applied)) places.push_back(i);
  }
  return places;
}

}  // namespace paceline::cache
