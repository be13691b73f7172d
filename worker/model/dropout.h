// Dropout (Srivastava et al., JMLR 2014), inverted: in training an element is zeroed with probability `rate`
// and the others are scaled by 1 / (1 - rate); evaluation does nothing. The mask of a sample is a pure
// function of (seed, epoch, sample, layer), so that it does not matter which worker, mini-batch or back end
// the sample meets.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "common/network/network.h"
#include "common/random.h"
#include "worker/model/batch.h"

namespace paceline {

// From a 32-bit number to an element of the mask; every back end's masks come from here.
struct DropoutRule {
  std::uint64_t dropped_below;  // an element is dropped when its number is below rate * 2^32
  float kept;                   // what the others are scaled by

  explicit constexpr DropoutRule(double rate)
      : dropped_below(static_cast<std::uint64_t>(rate * 0x1.0p32)),
        kept(static_cast<float>(1.0 / (1.0 - rate))) {}
  constexpr float factor(std::uint32_t number) const { return number < dropped_below ? 0.0F : kept; }
};

// The numbers of one sample's mask, one for each element in the order channel, row, column.
constexpr CounterRandom dropout_numbers(std::uint64_t seed, std::int64_t epoch, std::int64_t sample,
                                        std::size_t layer_index) {
  return {seed, Stream::kDropout, static_cast<std::uint64_t>(epoch), static_cast<std::uint64_t>(sample),
          layer_index};
}

// Fills `mask` (batch.size() x layer.out.size() floats, row-major) with 0 or 1 / (1 - rate) for a dropout
// layer, the network's `layer_index`-th. One 32-bit number per element, drawn in the order channel, row,
// column.
void fill_dropout_mask(const Layer& layer, std::size_t layer_index, std::uint64_t seed, const Batch& batch,
                       std::span<float> mask);

}  // namespace paceline
