// Where each layer's parameters lie on a GPU. In the flat vector tensors follow each other without a gap, so
// one may begin at any float; cuDNN measures its algorithms on aligned memory, and tensor cores want it. So
// each layer begins at a multiple of 256 bytes, all that it has side by side:
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
  std::vector<Layer> layers;   // with their places on the GPU
  std::vector<int> readers{};  // of each value (NetworkSpec::readers())
  std::int64_t floats = 0;     // of all parameters there, gaps included
};

inline PlacedNetwork place_parameters(const NetworkSpec& network) {
  constexpr std::int64_t kFloats = 64;
  PlacedNetwork placed{network.input, network.layers, network.readers(), 0};
  for (Layer& layer : placed.layers) {
    std::int64_t end = placed.floats;
    for (ParameterRange* const range :
         {&layer.weight, &layer.bias, &layer.running_mean, &layer.running_variance, &layer.running_weight}) {
      if (range->size == 0) continue;
      range->offset = end;
      end += range->size;
    }
    placed.floats = (end + kFloats - 1) / kFloats * kFloats;
  }
  return placed;
}

// All that a layer has of the vector: where that begins in the flat vector, and on a GPU.
struct ParameterPlace {
  std::int64_t flat;
  std::int64_t placed;
  std::int64_t size;
  std::int64_t trained;  // the first of them: its weight and bias, after which its buffers lie
};

// Of each layer that has some, the first first.
inline std::vector<ParameterPlace> parameter_places(const NetworkSpec& network) {
  const PlacedNetwork placed = place_parameters(network);
  std::vector<ParameterPlace> places;
  for (std::size_t i = 0; i < network.layers.size(); ++i) {
    const ParameterRange all = network.layers[i].tensors();
    if (all.size == 0) continue;
    places.push_back({all.offset, placed.layers[i].tensors().offset, all.size,
                      network.layers[i].weight.size + network.layers[i].bias.size});
  }
  return places;
}

}  // namespace paceline::cuda
