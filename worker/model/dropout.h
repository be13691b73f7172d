// Dropout (Srivastava et al., JMLR 2014), inverted: in training an element is zeroed with probability `rate`
// and the others are scaled by 1 / (1 - rate); evaluation does nothing. The mask of a sample is a pure
// function of (seed, epoch, sample, layer), so that it does not matter which worker, mini-batch or back end
// the sample meets.
#pragma once

#include <cstdint>
#include <span>

#include "common/network/network.h"
#include "worker/model/batch.h"

namespace paceline {

// Fills `mask` (batch.size() x layer.out.size() floats, row-major) with 0 or 1 / (1 - rate) for dropout layer
// `layer_index` of `network`. One 32-bit number per element, drawn in the order channel, row, column.
void fill_dropout_mask(const NetworkSpec& network, std::size_t layer_index, std::uint64_t seed,
                       const Batch& batch, std::span<float> mask);

}  // namespace paceline
