// The gradients of a round that a node's training threads have handed over, as far as they are final. Guarded by
// whoever has it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "common/params/shared_floats.h"

namespace paceline {

class RoundGradients {
 public:
  explicit RoundGradients(std::uint32_t threads) : of_(threads) {}

  // `thread`'s, final from this float on: from then on as it was put last. `samples`: nullopt: not known yet.
  void put(std::uint32_t thread, SharedFloats values, std::int64_t final_from,
           std::optional<std::int64_t> samples) {
    of_.at(thread) = Gradient{std::move(values), final_from, samples};
  }
  void withdraw(std::uint32_t thread) { of_.at(thread).reset(); }
  void clear() { std::fill(of_.begin(), of_.end(), std::nullopt); }

  // Whether every thread's is final from `begin` on.
  bool are_final_from(std::int64_t begin) const {
    return std::all_of(of_.begin(), of_.end(),
                       [begin](const auto& own) { return own && own->final_from <= begin; });
  }
  // By thread, once every one has been put.
  std::vector<SharedFloats> values() const {
    std::vector<SharedFloats> all;
    for (const std::optional<Gradient>& own : of_) all.push_back(own->values);
    return all;
  }
  // Likewise, of each.
  std::vector<std::optional<std::int64_t>> samples() const {
    std::vector<std::optional<std::int64_t>> all;
    for (const std::optional<Gradient>& own : of_) all.push_back(own->samples);
    return all;
  }

 private:
  struct Gradient {
    SharedFloats values;
    std::int64_t final_from = 0;
    std::optional<std::int64_t> samples = {};
  };
  std::vector<std::optional<Gradient>> of_;  // by thread
};

}  // namespace paceline
