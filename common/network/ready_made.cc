#include "common/network/ready_made.h"

namespace paceline {
namespace {

LayerConfig conv(std::int64_t out, std::int64_t kernel) {
  return {.kind = LayerKind::kConv, .out = out, .kernel = kernel};
}
LayerConfig pool(std::int64_t kernel) { return {.kind = LayerKind::kPool, .kernel = kernel}; }
LayerConfig dense(std::int64_t out) { return {.kind = LayerKind::kDense, .out = out}; }
LayerConfig relu() { return {.kind = LayerKind::kRelu}; }
LayerConfig flatten() { return {.kind = LayerKind::kFlatten}; }

// Both differ only in their numbers: two convolutional and two fully connected layers.
std::vector<LayerConfig> two_conv_two_dense(std::int64_t kernel, std::int64_t out1, std::int64_t out2,
                                            std::int64_t units, std::int64_t classes, double dropout) {
  std::vector<LayerConfig> layers = {conv(out1, kernel), relu(),       pool(2),
                                     conv(out2, kernel), relu(),       pool(2),
                                     flatten(),          dense(units), relu()};
  if (dropout != 0.0) layers.push_back({.kind = LayerKind::kDropout, .rate = dropout});
  layers.push_back(dense(classes));
  return layers;
}

}  // namespace

std::optional<std::vector<LayerConfig>> ready_made_network(const std::string& name, std::int64_t classes,
                                                           double dropout) {
  if (name == "cifar_cnn") return two_conv_two_dense(5, 64, 64, 384, classes, dropout);
  if (name == "cifar_cnn_small") return two_conv_two_dense(3, 32, 64, 128, classes, dropout);
  return std::nullopt;
}

}  // namespace paceline
