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

// A layer's parameters, weight and bias side by side: where they begin in the flat vector, and on a GPU.
struct ParameterPlace {
  std::int64_t flat;
  std::int64_t placed;
  std::int64_t size;
};

// Of each layer that has some, the first first.
inline std::vector<ParameterPlace> parameter_places(const NetworkSpec& network) {
  const PlacedNetwork placed = place_parameters(network);
  std::vector<ParameterPlace> places;
  for (std::size_t i = 0; i < network.layers.size(); ++i) {
    const Layer& layer = network.layers[i];
    if (layer.weight.size == 0) continue;
    places.push_back(
        {layer.weight.offset, placed.layers[i].weight.offset, layer.weight.size + layer.bias.size});
  }
  return places;
}

}  // namespace paceline::cuda
