// What the tests of worker/model share: small networks from lists of layers, random mini-batches from a seed,
// and the distance between two gradients.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "common/network/network.h"
#include "common/random.h"
#include "worker/model/backend.h"

namespace paceline {

inline LayerConfig conv(std::int64_t out, std::int64_t kernel, std::int64_t stride = 0,
                        std::int64_t padding = -1) {
  return {.kind = LayerKind::kConv, .out = out, .kernel = kernel, .stride = stride, .padding = padding};
}
inline LayerConfig pool(std::int64_t kernel, std::int64_t stride = 0, std::int64_t padding = -1) {
  return {.kind = LayerKind::kPool, .kernel = kernel, .stride = stride, .padding = padding};
}
inline LayerConfig dense(std::int64_t out) { return {.kind = LayerKind::kDense, .out = out}; }
inline LayerConfig relu() { return {.kind = LayerKind::kRelu}; }
inline LayerConfig flatten() { return {.kind = LayerKind::kFlatten}; }
inline LayerConfig dropout(double rate) { return {.kind = LayerKind::kDropout, .rate = rate}; }

inline TrainSection train_with(std::vector<LayerConfig> layers) {
  TrainSection train;
  train.model = "layers";
  train.layers = std::move(layers);
  return train;
}

inline NetworkSpec network_of(std::vector<LayerConfig> layers, Shape input, std::int64_t classes) {
  return build_network(train_with(std::move(layers)), input, classes).value();
}

// N samples of noise with random labels; ids and epochs as the loader would give them.
struct RandomBatch {
  std::vector<float> images;
  std::vector<std::uint8_t> labels;
  std::vector<std::int64_t> ids;
  std::vector<std::int64_t> epochs;

  RandomBatch(const NetworkSpec& network, std::int64_t n, std::uint64_t seed) {
    CounterRandom random(seed, Stream::kTest, 1);
    for (std::int64_t i = 0; i < n * network.input.size(); ++i) {
      images.push_back(static_cast<float>(random.next_normal()));
    }
    for (std::int64_t i = 0; i < n; ++i) {
      labels.push_back(static_cast<std::uint8_t>(random.next_below(network.classes)));
      ids.push_back(static_cast<std::int64_t>(random.next_below(50000)));
      epochs.push_back(3);
    }
    floats_ = network.input.size();
  }
  Batch all() const { return slice(0, static_cast<std::int64_t>(labels.size())); }
  // Samples [begin, begin + n).
  Batch slice(std::int64_t begin, std::int64_t n) const {
    const auto of = [&](const auto& values) { return std::span(values).subspan(begin, n); };
    return {std::span(images).subspan(begin * floats_, n * floats_), of(labels), of(ids), of(epochs)};
  }

 private:
  std::int64_t floats_ = 0;
};

// Initial weights, and biases that are not zero: so that a bias that is forgotten shows.
inline std::vector<float> random_parameters(const NetworkSpec& network, std::uint64_t seed) {
  std::vector<float> parameters(network.layout.size());
  initialize_parameters(network, seed, parameters);
  CounterRandom random(seed, Stream::kTest, 2);
  for (const Layer& layer : network.layers) {
    for (std::int64_t i = 0; i < layer.bias.size; ++i) {
      parameters[layer.bias.offset + i] = 0.4F * random.next_float() - 0.2F;
    }
  }
  return parameters;
}

inline std::unique_ptr<NetworkBackend> backend_of(Backend kind, const NetworkSpec& network,
                                                  std::int64_t batch_size, std::uint64_t seed = 5) {
  return make_backend(kind, network, batch_size, seed).value();
}

// ||a - b|| / ||b|| over elements [offset, offset + size).
template <typename A, typename B>
double relative_l2(const A& a, const B& b, std::int64_t offset, std::int64_t size) {
  double difference = 0.0;
  double norm = 0.0;
  for (std::int64_t i = offset; i < offset + size; ++i) {
    difference += (static_cast<double>(a[i]) - b[i]) * (static_cast<double>(a[i]) - b[i]);
    norm += static_cast<double>(b[i]) * b[i];
  }
  return std::sqrt(difference) / std::sqrt(norm);
}

}  // namespace paceline
