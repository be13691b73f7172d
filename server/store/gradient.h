// One gradient for one shard's range, in the pieces it came in, and what has been seen of its values.
//
// Each value is checked once, for NaN and infinity: before the authority is told that the gradient is whole
// and finite. By itself that would be another pass over memory. So whoever applies a part ahead of the
// decision (store/speculative_apply.h) checks it on the way, in the same loop or a stretch at a time, and each
// stretch comes from memory once:
//
//   use_and_check():   | use, check | use, check | use, check | ...      a stretch stays in a core's cache
//
// Thread: one at a time; checking and using parts that have no piece in common, several.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "common/ids.h"
#include "common/params/blocks.h"
#include "common/params/partition.h"
#include "common/params/shared_floats.h"
#include "common/wire/messages.h"

namespace paceline::server {

// Its pieces are contiguous, the first one at the range's end.
class Gradient {
 public:
  WorkerId worker() const { return worker_; }
  Clock clock() const { return clock_; }
  // 0 before it is whole.
  std::int64_t samples() const { return samples_; }
  // What its first piece says that it was computed with: a version, and how many updates.
  Version computed_version() const { return computed_version_; }
  std::int64_t updates_known() const { return updates_known_; }
  // This shard's state that it was computed with.
  Revision computed_revision() const { return computed_revision_; }
  // What of the range is here: one interval, all of it once the gradient is whole.
  Range arrived() const {
    if (pieces_.empty()) return {};
    return {pieces_.back().begin, pieces_.front().end()};
  }

  // Calls use(offset, values) for each stretch of the gradient that lies in `part`, ascending: together they
  // are exactly `part`. `offset` is counted from the range's begin.
  template <typename Use>
  void for_each_in(Range part, Use&& use) const {
    for (auto piece = pieces_.rbegin(); piece != pieces_.rend(); ++piece) {
      const Range common = piece->in(part);
      if (common.size() > 0) use(common.begin, piece->floats(common));
    }
  }

  // The same with use(offset, values, check), where each piece that lies in `part` whole is to be checked,
  // too, unless that has been done: `check` asks whether a value is NaN or infinite.
  template <typename Use>
  void use_and_check(Range part, Use&& use) {
    for (auto piece = pieces_.rbegin(); piece != pieces_.rend(); ++piece) {
      const Range common = piece->in(part);
      if (common.size() <= 0) continue;
      if (common.size() < piece->payload.count() || piece->checked) {
        use(common.begin, piece->floats(common), false);
      } else {
        piece->check(
            [&](std::int64_t offset, std::span<const float> values) { return use(offset, values, true); });
      }
    }
  }

  // How many pieces there are, and checking one of them, unless that has been done.
  std::int64_t piece_count() const { return std::ssize(pieces_); }
  void check_finite(std::int64_t piece);
  // The first piece that nobody has checked; piece_count() when there is none.
  std::int64_t first_unchecked();
  std::int64_t unchecked_floats() const;
  // The first element, counted from the range's begin, that is NaN or infinite, of those checked.
  std::optional<std::int64_t> non_finite() const;
  // Its element `index`, of a piece that is here.
  float at(std::int64_t index) const;

 private:
  friend class GradientStore;
  struct Piece {
    std::int64_t begin = 0;
    wire::Payload payload{};  // float32
    bool checked = false;
    std::optional<std::int64_t> non_finite{};  // the first one

    std::int64_t end() const { return begin + payload.count(); }
    Range in(const Range& part) const { return {std::max(part.begin, begin), std::min(part.end, end())}; }
    std::span<const float> floats(const Range& part) const {
      return payload.floats().subspan(static_cast<std::size_t>(part.begin - begin),
                                      static_cast<std::size_t>(part.size()));
    }
    // Stretch by stretch: meets(offset, values), whether one of these is NaN or infinite.
    template <typename Meets>
    void check(Meets&& meets) {
      for (std::int64_t at = begin; at < end(); at += kStretch) {
        const Range stretch{at, std::min(at + kStretch, end())};
        if (meets(at, floats(stretch)) && !non_finite) find_in(stretch);
      }
      checked = true;
    }
    void find_in(const Range& stretch);
  };
  // Floats: a stretch of a gradient, and of two arrays beside it, lie in a core's innermost cache.
  static constexpr std::int64_t kStretch = 1024;

  WorkerId worker_;
  Clock clock_;
  std::int64_t samples_ = 0;
  Version computed_version_;
  std::int64_t updates_known_ = 0;
  Revision computed_revision_;
  std::int64_t begin_ = 0;           // of what is here: [begin_, the range's size)
  std::int64_t all_checked_ = 0;     // this many first pieces have been checked, perhaps more
  std::vector<Piece> pieces_;        // as they came: descending
  BlockRef decoded_;                 // what the pieces point into, where they came in fewer bytes
  float* decoded_floats_ = nullptr;  // its, for the pieces that come
};

}  // namespace paceline::server
