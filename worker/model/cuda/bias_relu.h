// What becomes of a trained layer's products where they are read next: the bias of their channel is added,
// and a ReLU follows where one stands right after the layer.
#pragma once

#include "common/host_device.h"

namespace paceline::cuda {

template <typename T>
struct BiasRelu {
  const float* bias;  // null: of no trained layer, the values are as they are
  int channels;
  bool relu;

  // Planes are counted through all samples.
  PACELINE_HOST_DEVICE float bias_of(int plane) const {
    return bias == nullptr ? 0.0F : bias[static_cast<unsigned>(plane) % static_cast<unsigned>(channels)];
  }
  PACELINE_HOST_DEVICE T operator()(T product, float channel_bias) const {
    const float value = static_cast<float>(product) + channel_bias;
    return static_cast<T>(relu && value < 0.0F ? 0.0F : value);  // a NaN stays one
  }
};

}  // namespace paceline::cuda
