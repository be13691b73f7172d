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
inline LayerConfig global_average_pool() { return {.kind = LayerKind::kGlobalAveragePool}; }
inline LayerConfig add(std::vector<std::string> from) {
  return {.kind = LayerKind::kAdd, .from = std::move(from)};
}
inline LayerConfig concat(std::vector<std::string> from) {
  return {.kind = LayerKind::kConcat, .from = std::move(from)};
}
inline LayerConfig batch_norm() { return {.kind = LayerKind::kBatchNorm}; }
inline LayerConfig conv_without_bias(std::int64_t out, std::int64_t kernel, std::int64_t stride = 0) {
  return {.kind = LayerKind::kConv, .out = out, .kernel = kernel, .stride = stride, .bias = false};
}
// The same layer with a name, and reading `from` where that is not the one before.
inline LayerConfig named_layer(std::string name, LayerConfig layer, std::vector<std::string> from = {}) {
  layer.name = std::move(name);
  if (!from.empty()) layer.from = std::move(from);
  return layer;
}
inline LayerConfig reading(LayerConfig layer, std::vector<std::string> from) {
  layer.from = std::move(from);
  return layer;
}

// Networks with batch norms where a back end may get one wrong; arguments as below. Right in front of a norm a bias
// has no effect, and a gradient of rounding errors alone: there is none.
inline std::vector<std::vector<LayerConfig>> normalised_networks(std::int64_t wide, std::int64_t narrow) {
  return {
      {conv_without_bias(wide, 3), batch_norm(), relu(), conv_without_bias(narrow, 3), batch_norm(),
       dense(10)},
      {batch_norm(), conv(narrow, 3), relu(), batch_norm(), relu(), pool(2),
       dense(10)},  // of images; a pool behind
      {flatten(), batch_norm(), dense(12), relu(), batch_norm(), relu(), dense(10)},  // of vectors
      // Activation first, so what is normalised is added, too; a norm that two read.
      {named_layer("a", conv(wide, 3)), batch_norm(), relu(), conv_without_bias(wide, 3), batch_norm(),
       relu(), named_layer("b", conv_without_bias(wide, 3)), named_layer("c", add({"b", "a"})),
       named_layer("d", batch_norm()), relu(), conv(wide, 1), add({"c", "conv4", "d"}), global_average_pool(),
       dense(10)},
      // Residual blocks, one with a projection.
      {conv_without_bias(wide, 3),
       batch_norm(),
       named_layer("x", relu()),
       conv_without_bias(wide, 3),
       batch_norm(),
       relu(),
       conv_without_bias(wide, 3),
       named_layer("n", batch_norm()),
       add({"n", "x"}),
       named_layer("y", relu()),
       conv_without_bias(narrow, 3, 2),
       batch_norm(),
       relu(),
       conv_without_bias(narrow, 3),
       named_layer("m", batch_norm()),
       named_layer("p", conv_without_bias(narrow, 1, 2), {"y"}),
       named_layer("q", batch_norm()),
       add({"m", "q"}),
       relu(),
       global_average_pool(),
       dense(10)},
      {conv(wide, 3), relu(), dropout(0.2), batch_norm(), dropout(0.1), relu(), concat({"relu2", "conv1"}),
       conv(narrow, 3), dense(10)},
  };
}

// Networks in which values are read several times, added up and put side by side, in the ways that a back end
// may get wrong. For images of 3 channels of even sides, of 10 classes; `wide` and `narrow`: channels;
// `pixels`: of an image.
inline std::vector<std::vector<LayerConfig>> branching_networks(std::int64_t wide, std::int64_t narrow,
                                                                std::int64_t pixels) {
  return {
      // Residual blocks as He et al. have them; the shortcut is a ReLU's output, then a convolution's.
      {conv(wide, 3), named_layer("a", relu()), conv(wide, 3), relu(), named_layer("b", conv(wide, 3)),
       add({"b", "a"}), named_layer("c", relu()), conv(narrow, 3, 2), relu(),
       named_layer("d", conv(narrow, 3)), named_layer("e", conv(narrow, 1, 2, 0), {"c"}), add({"d", "e"}),
       relu(), global_average_pool(), dense(10)},
      // Activation first: what is added is read by a ReLU, too.
      {named_layer("a", conv(wide, 3)), relu(), named_layer("b", conv(wide, 3)),
       named_layer("c", add({"a", "b"})), relu(), named_layer("d", conv(wide, 3)), add({"c", "d"}), relu(),
       pool(2), dense(10)},
      // The image is read twice, and added to what it became.
      {named_layer("a", conv(3, 3)), named_layer("b", relu(), {"input"}), add({"a", "b"}), dense(10)},
      // A value added to itself; three inputs; one that nothing trained stands in front of.
      {named_layer("a", conv(4, 3)), named_layer("b", add({"a", "a"})),
       named_layer("c", reading(conv(4, 3), {"input"})), named_layer("d", relu(), {"a"}),
       add({"b", "c", "d"}), dense(10)},
      // Inception: channels side by side, of blocks and of none; a ReLU and a pool that others read, too.
      {conv(wide, 3), named_layer("a", relu()), named_layer("b", conv(wide, 1)),
       named_layer("c", pool(3, 1, 1), {"a"}), named_layer("d", relu(), {"a"}), concat({"b", "c", "d"}),
       dropout(0.2), named_layer("e", conv(5, 3)), named_layer("f", pool(3, 1, 1), {"e"}),
       concat({"e", "f", "input"}), global_average_pool(), dense(10)},
      // A dropout and a pool of what is read elsewhere, too.
      {named_layer("a", conv(narrow, 3)), named_layer("b", dropout(0.3)), named_layer("c", pool(1, 1), {"a"}),
       named_layer("d", relu(), {"a"}), named_layer("e", pool(3, 1, 1)), add({"b", "c", "e"}), dense(10)},
      // Vectors, of which one lies as the image that it was; the sum gives the logits.
      {conv(4, 3), relu(), pool(2), named_layer("a", flatten()), named_layer("b", dense(pixels)),
       add({"a", "b"}), relu(), concat({"b", "relu2"}), named_layer("c", dense(10)),
       named_layer("d", dense(10), {"a"}), add({"c", "d"})},
      // The mean of each channel is a logit.
      {conv(wide, 3), relu(), conv(10, 3), global_average_pool()},
  };
}

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
  std::vector<Label> labels;
  std::vector<std::int64_t> ids;
  std::vector<std::int64_t> epochs;

  RandomBatch(const NetworkSpec& network, std::int64_t n, std::uint64_t seed) {
    CounterRandom random(seed, Stream::kTest, 1);
    for (std::int64_t i = 0; i < n * network.input.size(); ++i) {
      images.push_back(static_cast<float>(random.next_normal()));
    }
    for (std::int64_t i = 0; i < n; ++i) {
      labels.push_back(static_cast<Label>(random.next_below(network.classes)));
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

// Initial weights, and biases, scales and running statistics that are not 0 and 1: so that one that is forgotten
// shows.
inline std::vector<float> random_parameters(const NetworkSpec& network, std::uint64_t seed) {
  std::vector<float> parameters(network.layout.size());
  initialize_parameters(network, seed, parameters);
  CounterRandom random(seed, Stream::kTest, 2);
  for (const Layer& layer : network.layers) {
    const auto draw = [&](const ParameterRange& range, float middle) {
      for (std::int64_t i = 0; i < range.size; ++i) {
        parameters[range.offset + i] = middle + 0.4F * random.next_float() - 0.2F;
      }
    };
    if (layer.shares_weights) continue;
    draw(layer.bias, 0.0F);
    if (layer.kind == LayerKind::kScale) draw(layer.weight, 1.0F);
    if (!layer.mixes_samples()) continue;
    draw(layer.weight, 1.0F);
    draw(layer.running_weight, 0.6F);
    draw(layer.running_mean, 0.0F);
    draw(layer.running_variance, 1.0F);
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
