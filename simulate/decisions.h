// The decisions on their way to the shards. A pool that events refer into by number; one that every shard has
// applied leaves its place to the next.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "common/sync/actions.h"
#include "common/wire/messages.h"

namespace paceline::simulate {

struct Decision {
  sync::Apply apply;
  std::uint32_t shards_open = 0;        // that have not applied it
  wire::ApplyDecision announced = {};   // training mode: as the shards are told it
  std::optional<std::size_t> row = {};  // of the curve, where the version that it leads to is evaluated
};

// Thread: one.
class Decisions {
 public:
  std::uint32_t begin(Decision decision) {
    if (free_.empty()) {
      free_.push_back(static_cast<std::uint32_t>(decisions_.size()));
      decisions_.emplace_back();
    }
    const std::uint32_t place = free_.back();
    free_.pop_back();
    decisions_[place] = std::move(decision);
    return place;
  }
  void end(std::uint32_t place) { free_.push_back(place); }

  Decision& operator[](std::uint32_t place) { return decisions_[place]; }

 private:
  std::vector<Decision> decisions_;
  std::vector<std::uint32_t> free_;
};

}  // namespace paceline::simulate
