#include "common/network/ready_made.h"

#include <algorithm>
#include <array>
#include <utility>

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

// A residual network while its layers are listed. Names are those of PyTorch's models:
// layer2.0.conv1, layer2.0.bn1, layer2.0.downsample.0.
class Residual {
 public:
  explicit Residual(bool zero_gamma) : zero_gamma_(zero_gamma) {}

  // A convolution without a bias and its norm. `from`: what it reads; empty: the layer before.
  void conv_norm(const std::string& conv_name, const std::string& norm_name, std::int64_t out,
                 std::int64_t kernel, std::int64_t stride, std::vector<std::string> from = {}) {
    layers_.push_back({.kind = LayerKind::kConv,
                       .out = out,
                       .kernel = kernel,
                       .stride = stride,
                       .padding = (kernel - 1) / 2,
                       .name = conv_name,
                       .from = std::move(from),
                       .weight_init = {.kind = FillerKind::kMsra},
                       .bias = false});
    layers_.push_back({.kind = LayerKind::kBatchNorm, .name = norm_name, .decay_factor = 0.0});
    channels_ = out;
  }
  void add(LayerConfig layer) { layers_.push_back(std::move(layer)); }

  // What a block of this name does to what stands before it: convolutions of these kernels and channels, and
  // around them a shortcut. `stride` is that of convolution `strided`.
  struct Part {
    std::int64_t kernel;
    std::int64_t out;
  };
  void block(const std::string& name, const std::vector<Part>& parts, std::int64_t stride,
             std::size_t strided) {
    const std::string read = layers_.back().name;
    const std::int64_t channels = channels_;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const std::string number = std::to_string(i + 1);
      if (i > 0) add(relu());
      conv_norm(name + ".conv" + number, name + ".bn" + number, parts[i].out, parts[i].kernel,
                i == strided ? stride : 1);
    }
    if (zero_gamma_) layers_.back().weight_init = {.kind = FillerKind::kConstant, .value = 0.0};
    const std::string last = layers_.back().name;
    std::string shortcut = read;
    if (stride != 1 || channels != channels_) {
      shortcut = name + ".downsample.1";
      conv_norm(name + ".downsample.0", shortcut, channels_, 1, stride, {read});
    }
    add({.kind = LayerKind::kAdd, .name = name + ".add", .from = {last, shortcut}});
    add({.kind = LayerKind::kRelu, .name = name});
  }

  std::vector<LayerConfig> with_head(std::int64_t classes, double dropout) && {
    add({.kind = LayerKind::kGlobalAveragePool, .name = "avgpool"});
    if (dropout != 0.0) add({.kind = LayerKind::kDropout, .rate = dropout});
    LayerConfig last = dense(classes);
    last.name = "fc";
    last.weight_init = {.kind = FillerKind::kGaussian, .std = 0.01};
    last.bias_decay_factor = 0.0;
    add(std::move(last));
    return std::move(layers_);
  }

 private:
  const bool zero_gamma_;
  std::vector<LayerConfig> layers_;
  std::int64_t channels_ = 0;  // after the last convolution
};

std::string block_name(std::size_t stage, std::int64_t block) {
  return "layer" + std::to_string(stage + 1) + "." + std::to_string(block);
}

std::vector<LayerConfig> cifar_resnet(std::int64_t blocks, std::int64_t classes, double dropout,
                                      bool zero_gamma) {
  Residual network(zero_gamma);
  network.conv_norm("conv1", "bn1", 16, 3, 1);
  network.add({.kind = LayerKind::kRelu, .name = "relu"});
  constexpr std::array<std::int64_t, 3> kChannels = {16, 32, 64};
  for (std::size_t stage = 0; stage < kChannels.size(); ++stage) {
    for (std::int64_t i = 0; i < blocks; ++i) {
      const std::int64_t stride = stage > 0 && i == 0 ? 2 : 1;
      const Residual::Part part{3, kChannels[stage]};
      network.block(block_name(stage, i), {part, part}, stride, 0);
    }
  }
  return std::move(network).with_head(classes, dropout);
}

std::vector<LayerConfig> resnet50(std::int64_t classes, double dropout, bool zero_gamma) {
  Residual network(zero_gamma);
  network.conv_norm("conv1", "bn1", 64, 7, 2);
  network.add({.kind = LayerKind::kRelu, .name = "relu"});
  network.add({.kind = LayerKind::kPool, .kernel = 3, .stride = 2, .padding = 1, .name = "maxpool"});
  constexpr std::array<std::int64_t, 4> kBlocks = {3, 4, 6, 3};
  for (std::size_t stage = 0; stage < kBlocks.size(); ++stage) {
    const std::int64_t narrow = std::int64_t{64} << stage;
    for (std::int64_t i = 0; i < kBlocks[stage]; ++i) {
      const std::int64_t stride = stage > 0 && i == 0 ? 2 : 1;
      network.block(block_name(stage, i), {{1, narrow}, {3, narrow}, {1, 4 * narrow}}, stride, 1);
    }
  }
  return std::move(network).with_head(classes, dropout);
}

}  // namespace

const std::vector<std::string>& ready_made_names() {
  static const std::vector<std::string> kNames = {"cifar_cnn", "cifar_cnn_small", "resnet20", "resnet56",
                                                  "resnet50"};
  return kNames;
}

bool is_residual(const std::string& name) { return name.starts_with("resnet"); }

std::optional<std::vector<LayerConfig>> ready_made_network(const std::string& name, std::int64_t classes,
                                                           double dropout, bool zero_gamma) {
  if (name == "cifar_cnn") return two_conv_two_dense(5, 64, 64, 384, classes, dropout);
  if (name == "cifar_cnn_small") return two_conv_two_dense(3, 32, 64, 128, classes, dropout);
  if (name == "resnet20") return cifar_resnet(3, classes, dropout, zero_gamma);
  if (name == "resnet56") return cifar_resnet(9, classes, dropout, zero_gamma);
  if (name == "resnet50") return resnet50(classes, dropout, zero_gamma);
  return std::nullopt;
}

}  // namespace paceline
