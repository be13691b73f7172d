// Where each layer's parameters lie on a GPU. In the flat vector tensors follow each other without a gap, so
// one may begin at any float; cuDNN measures its algorithms on aligned memory, and tensor cores want it. So
// each layer begins at a multiple of 256 bytes, its bias right behind its weight:
//
//   flat      conv1.weight 0   conv1.bias 75   conv2.weight 80 …
//   on a GPU  conv1.weight 0   conv1.bias 75   conv2.weight 128 …
#pragma once

#include <cstdint>
#include <vector>

#include "common/network/network.h"

namespace paceline::cuda {

struct PlacedNetwork {
  Shape input;
  std::vector<Layer> layers;  // with their places on the GPU
  std::int64_t floats = 0;    // of all parameters there, gaps included
};

inline PlacedNetwork place_parameters(const NetworkSpec& network) {
  constexpr std::int64_t kFloats = 64;
  PlacedNetwork placed{network.input, network.layers, 0};
  for (Layer& layer : placed.layers) {
    if (layer.weight.size == 0) continue;
    layer.weight.offset = placed.floats;
    layer.bias.offset = layer.weight.offset + layer.weight.size;
    placed.floats = (layer.bias.offset + layer.bias.size + kFloats - 1) / kFloats * kFloats;
  }
  return placed;
}

}  // namespace paceline::cuda
