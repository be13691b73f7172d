// What layers with a window that slides over an image give oneDNN's descriptions.
#pragma once

#include <algorithm>

#include "worker/model/onednn_program.h"

namespace paceline::onednn {

inline Dims strides_of(const Layer& layer) { return {layer.stride, layer.stride}; }
inline Dims padding_of(const Layer& layer) { return {layer.padding, layer.padding}; }
// How many pixels lie between a kernel's elements.
inline Dims dilation_of(const Layer& layer) { return {layer.dilation - 1, layer.dilation - 1}; }

// Padding after the image: as much as in front of it, or what the last window hangs over.
inline Dims padding_after(const Layer& layer) {
  const auto after = [&](std::int64_t out, std::int64_t in) {
    return std::max(layer.padding, (out - 1) * layer.stride + layer.kernel - in - layer.padding);
  };
  return {after(layer.out.height, layer.in.height), after(layer.out.width, layer.in.width)};
}

// A pool's.
inline Window window_of(const Layer& layer) {
  return {.strides = strides_of(layer),
          .kernel = {layer.kernel, layer.kernel},
          .before = padding_of(layer),
          .after = padding_after(layer)};
}

}  // namespace paceline::onednn
