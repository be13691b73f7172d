// From a list of layers to a network: shapes are inferred front to back, and everything that does not fit is
// refused with the layer's index. The bounds on sizes keep every later product of dimensions within 64 bits.
#include "common/network/network.h"

#include <cmath>
#include <utility>

#include "common/assert.h"
#include "common/random.h"

namespace paceline {
namespace {

constexpr std::int64_t kOutMax = 1 << 16;          // channels or units of one layer
constexpr std::int64_t kKernelMax = 1 << 10;       // pixels
constexpr std::int64_t kActivationsMax = 1 << 26;  // floats per sample behind one layer

LayerConfig conv(std::int64_t out, std::int64_t kernel) {
  return {.kind = LayerKind::kConv, .out = out, .kernel = kernel};
}
LayerConfig pool(std::int64_t kernel) { return {.kind = LayerKind::kPool, .kernel = kernel}; }
LayerConfig dense(std::int64_t out) { return {.kind = LayerKind::kDense, .out = out}; }
LayerConfig relu() { return {.kind = LayerKind::kRelu}; }
LayerConfig flatten() { return {.kind = LayerKind::kFlatten}; }

// The two ready-made networks differ only in their numbers: two convolutional and two fully connected layers.
std::vector<LayerConfig> two_conv_two_dense(std::int64_t kernel, std::int64_t out1, std::int64_t out2,
                                            std::int64_t units, std::int64_t classes, double dropout) {
  std::vector<LayerConfig> layers = {conv(out1, kernel), relu(),       pool(2),
                                     conv(out2, kernel), relu(),       pool(2),
                                     flatten(),          dense(units), relu()};
  if (dropout != 0.0) layers.push_back({.kind = LayerKind::kDropout, .rate = dropout});
  layers.push_back(dense(classes));
  return layers;
}

Result<std::vector<LayerConfig>> layers_of(const TrainSection& train, std::int64_t classes) {
  if (!(train.dropout >= 0.0 && train.dropout < 1.0)) {
    return invalid_argument("train.dropout: " + std::to_string(train.dropout) + ", expected 0 <= rate < 1");
  }
  if (train.model == "layers") {
    if (train.dropout != 0.0) {
      return invalid_argument(
          "train.dropout: is for the ready-made networks; give train.layers a dropout layer instead");
    }
    if (train.layers.empty()) return invalid_argument("train.layers: empty, but train.model is layers");
    return train.layers;
  }
  if (!train.layers.empty()) {
    return invalid_argument("train.layers: given, but train.model is " + train.model + ", expected layers");
  }
  if (train.model == "cifar_cnn") return two_conv_two_dense(5, 64, 64, 384, classes, train.dropout);
  if (train.model == "cifar_cnn_small") return two_conv_two_dense(3, 32, 64, 128, classes, train.dropout);
  return invalid_argument("train.model: " + train.model + ", expected cifar_cnn, cifar_cnn_small or layers");
}

std::string place(std::size_t index, LayerKind kind) {
  return "train.layers[" + std::to_string(index) + "]: " + name_of(kind);
}

Status check_range(const char* field, std::int64_t value, std::int64_t low, std::int64_t high) {
  if (value >= low && value <= high) return Status::ok();
  return invalid_argument(std::string(field) + " " + std::to_string(value) + ", expected " +
                          std::to_string(low) + " to " + std::to_string(high));
}

// A field given to a kind that does not read it is a mistake, not a detail.
Status check_unused_fields(const LayerConfig& config) {
  const bool has_out = config.kind == LayerKind::kConv || config.kind == LayerKind::kDense;
  const bool has_window = config.kind == LayerKind::kConv || config.kind == LayerKind::kPool;
  if (!has_out && config.out != 0) return invalid_argument("has no `out`");
  if (!has_window && config.kernel != 0) return invalid_argument("has no `kernel`");
  if (!has_window && config.stride != 0) return invalid_argument("has no `stride`");
  if (!has_window && config.padding != -1) return invalid_argument("has no `padding`");
  if (config.kind != LayerKind::kDropout && config.rate != 0.0) return invalid_argument("has no `rate`");
  return Status::ok();
}

// Builds the spec layer by layer. `flat_` remembers that a dense or flatten layer has given up the image.
class Builder {
 public:
  Builder(Shape input, std::int64_t classes) : shape_(input) {
    spec_.input = input;
    spec_.classes = classes;
  }

  Status add(const LayerConfig& config) {
    PACELINE_RETURN_IF_ERROR(check_unused_fields(config));
    Layer layer;
    layer.kind = config.kind;
    layer.in = shape_;
    layer.out = shape_;
    switch (config.kind) {
      case LayerKind::kConv:
        PACELINE_RETURN_IF_ERROR(infer_conv(config, layer));
        break;
      case LayerKind::kPool:
        PACELINE_RETURN_IF_ERROR(infer_window(config, config.kernel, 0, layer));
        break;
      case LayerKind::kDense:
        PACELINE_RETURN_IF_ERROR(infer_dense(config, layer));
        break;
      case LayerKind::kDropout:
        PACELINE_RETURN_IF_ERROR(infer_dropout(config, layer));
        break;
      case LayerKind::kFlatten:
        layer.out = {shape_.size(), 1, 1};
        flat_ = true;
        break;
      case LayerKind::kRelu:
        break;
    }
    if (layer.out.size() > kActivationsMax) {
      return invalid_argument("its output " + to_string(layer.out) + " has " +
                              std::to_string(layer.out.size()) + " floats per sample; no more than " +
                              std::to_string(kActivationsMax) + " can be");
    }
    shape_ = layer.out;
    spec_.layers.push_back(layer);
    return Status::ok();
  }

  NetworkSpec take() { return std::move(spec_); }

 private:
  // What conv and pool share: a square window that slides over an image.
  Status infer_window(const LayerConfig& config, std::int64_t default_stride, std::int64_t default_padding,
                      Layer& layer) {
    if (flat_) {
      return invalid_argument("needs an image, but its input is a vector of " +
                              std::to_string(shape_.size()) + " units");
    }
    PACELINE_RETURN_IF_ERROR(check_range("kernel", config.kernel, 1, kKernelMax));
    layer.kernel = config.kernel;
    layer.stride = config.stride == 0 ? default_stride : config.stride;
    layer.padding = config.padding == -1 ? default_padding : config.padding;
    PACELINE_RETURN_IF_ERROR(check_range("stride", layer.stride, 1, kKernelMax));
    // A window may not lie wholly in the padding: a pool would have no maximum there.
    PACELINE_RETURN_IF_ERROR(check_range("padding", layer.padding, 0, layer.kernel - 1));
    const std::int64_t rows = shape_.height + 2 * layer.padding - layer.kernel;
    const std::int64_t columns = shape_.width + 2 * layer.padding - layer.kernel;
    if (rows < 0 || columns < 0) {
      return invalid_argument("kernel " + std::to_string(layer.kernel) + " is larger than its input " +
                              to_string(shape_) + " with padding " + std::to_string(layer.padding));
    }
    layer.out.height = rows / layer.stride + 1;
    layer.out.width = columns / layer.stride + 1;
    return Status::ok();
  }

  Status infer_conv(const LayerConfig& config, Layer& layer) {
    PACELINE_RETURN_IF_ERROR(check_range("out", config.out, 1, kOutMax));
    PACELINE_RETURN_IF_ERROR(infer_window(config, 1, (config.kernel - 1) / 2, layer));
    layer.out.channels = config.out;
    return add_parameters("conv" + std::to_string(++convs_),
                          {config.out, shape_.channels, layer.kernel, layer.kernel}, layer);
  }

  Status infer_dense(const LayerConfig& config, Layer& layer) {
    PACELINE_RETURN_IF_ERROR(check_range("out", config.out, 1, kOutMax));
    layer.out = {config.out, 1, 1};
    flat_ = true;
    return add_parameters("fc" + std::to_string(++denses_), {config.out, shape_.size()}, layer);
  }

  static Status infer_dropout(const LayerConfig& config, Layer& layer) {
    if (!(config.rate >= 0.0 && config.rate < 1.0)) {
      return invalid_argument("rate " + std::to_string(config.rate) + ", expected 0 <= rate < 1");
    }
    layer.rate = config.rate;
    return Status::ok();
  }

  Status add_parameters(const std::string& name, std::vector<std::int64_t> weight_shape, Layer& layer) {
    const std::int64_t outputs = weight_shape.front();
    PACELINE_ASSIGN_OR_RETURN(layer.weight, add_tensor(name + ".weight", std::move(weight_shape)));
    PACELINE_ASSIGN_OR_RETURN(layer.bias, add_tensor(name + ".bias", {outputs}));
    return Status::ok();
  }

  Result<ParameterRange> add_tensor(std::string name, std::vector<std::int64_t> shape) {
    PACELINE_ASSIGN_OR_RETURN(const std::size_t index, spec_.layout.add(std::move(name), std::move(shape)));
    const Tensor& tensor = spec_.layout.tensors()[index];
    return ParameterRange{tensor.offset, tensor.size()};
  }

  NetworkSpec spec_;
  Shape shape_;
  bool flat_ = false;
  int convs_ = 0;
  int denses_ = 0;
};

}  // namespace

std::string to_string(const Shape& shape) {
  return std::to_string(shape.channels) + "x" + std::to_string(shape.height) + "x" +
         std::to_string(shape.width);
}

Result<NetworkSpec> build_network(const TrainSection& train, Shape input, std::int64_t classes) {
  PACELINE_ASSERT(input.channels > 0 && input.height > 0 && input.width > 0, to_string(input));
  PACELINE_ASSERT(classes > 0 && classes <= 256, std::to_string(classes));  // labels are bytes
  PACELINE_ASSIGN_OR_RETURN(const std::vector<LayerConfig> configs, layers_of(train, classes));
  Builder builder(input, classes);
  for (std::size_t i = 0; i < configs.size(); ++i) {
    PACELINE_RETURN_IF_ERROR(builder.add(configs[i]).with_context(place(i, configs[i].kind)));
  }
  // Logits go straight into the softmax, so nothing may stand behind the last dense layer.
  const LayerConfig& last = configs.back();
  if (last.kind != LayerKind::kDense || last.out != classes) {
    const std::string got = last.kind == LayerKind::kDense ? "out " + std::to_string(last.out) : "it";
    return invalid_argument(place(configs.size() - 1, last.kind) + ": " + got +
                            " is last, expected dense with out " + std::to_string(classes) +
                            " (the number of classes)");
  }
  return builder.take();
}

void initialize_parameters(const NetworkSpec& network, std::uint64_t seed, std::span<float> parameters) {
  PACELINE_ASSERT(
      static_cast<std::int64_t>(parameters.size()) == network.layout.size(),
      std::to_string(parameters.size()) + " floats, expected " + std::to_string(network.layout.size()));
  std::uint64_t tensor = 0;
  for (std::size_t i = 0; i < network.layers.size(); ++i) {
    const Layer& layer = network.layers[i];
    if (layer.weight.size == 0) continue;
    CounterRandom random(seed, Stream::kInitialParameters, tensor);
    const double inputs = static_cast<double>(layer.weight.size / layer.bias.size);
    const double bound = 1.0 / std::sqrt(inputs);
    for (std::int64_t j = 0; j < layer.weight.size; ++j) {
      parameters[layer.weight.offset + j] = static_cast<float>((2.0 * random.next_float() - 1.0) * bound);
    }
    for (std::int64_t j = 0; j < layer.bias.size; ++j) parameters[layer.bias.offset + j] = 0.0F;
    tensor += 2;  // weight, bias
  }
}

}  // namespace paceline
