// What a window of an average pool is divided by: its pixels in the padded image, whose end it may hang over.
#pragma once

#include <algorithm>
#include <cstdint>

#include "common/network/network.h"

namespace paceline::layers::average_pool {

// Of the window at row y and column x of the output.
inline std::int64_t divisor(const Layer& layer, std::int64_t y, std::int64_t x) {
  const auto length = [&](std::int64_t at, std::int64_t size) {
    const std::int64_t begin = at * layer.stride - layer.padding;
    return std::min(begin + layer.kernel, size + layer.padding) - begin;
  };
  return length(y, layer.in.height) * length(x, layer.in.width);
}

}  // namespace paceline::layers::average_pool
