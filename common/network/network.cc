// From a list of layers to a network: names are looked up, shapes are inferred front to back, and everything
// that does not fit is refused with the layer's index. The bounds on sizes keep every later product of
// dimensions within 64 bits.
#include "common/network/network.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "common/assert.h"
#include "common/network/filler.h"
#include "common/network/layer_rule.h"
#include "common/network/ready_made.h"
#include "common/network/stages.h"
#include "common/random.h"

namespace paceline {
namespace {

constexpr std::int64_t kActivationsMax = 1 << 26;  // floats per sample after one layer
constexpr std::size_t kNameBytesMax = 64;
constexpr const char* kImage = "input";  // what a layer's `from` calls it

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
    if (train.zero_gamma) {
      return invalid_argument(
          "train.zero_gamma: is for the ready-made residual networks; give a batch_norm of train.layers "
          "weight_init "
          "{kind: constant, value: 0} instead");
    }
    return train.layers;
  }
  if (!train.layers.empty()) {
    return invalid_argument("train.layers: given, but train.model is " + train.model + ", expected layers");
  }
  if (train.zero_gamma && !is_residual(train.model)) {
    return invalid_argument("train.zero_gamma: true, but train.model is " + train.model + ", expected " +
                            "a residual network, as resnet20");
  }
  auto layers = ready_made_network(train.model, classes, train.dropout, train.zero_gamma);
  if (layers) return *std::move(layers);
  std::string names;
  for (const std::string& name : ready_made_names()) names += name + ", ";
  return invalid_argument("train.model: " + train.model + ", expected " + names + "or layers");
}

std::string key_of(std::size_t index) { return "train.layers[" + std::to_string(index) + "]"; }
std::string place(std::size_t index, LayerKind kind) { return key_of(index) + ": " + name_of(kind); }

// A field given to a kind that does not read it is a mistake, not a detail.
Status check_unused_fields(const LayerConfig& config, const LayerRule& rule) {
  if (!rule.has_out && config.out != 0) return invalid_argument("has no `out`");
  if (rule.window == nullptr) {
    if (config.kernel != 0) return invalid_argument("has no `kernel`");
    if (config.stride != 0) return invalid_argument("has no `stride`");
    if (config.padding != -1) return invalid_argument("has no `padding`");
  }
  if (!rule.has_rate && config.rate != 0.0) return invalid_argument("has no `rate`");
  if (!rule.has_parameters && config.lr_factor != 1.0) return invalid_argument("has no `lr_factor`");
  if (!rule.has_parameters && config.decay_factor != 1.0) return invalid_argument("has no `decay_factor`");
  if (!rule.has_parameters && (config.bias_lr_factor || config.bias_decay_factor)) {
    return invalid_argument("has no bias");
  }
  if (!rule.has_parameters && (config.weight_init != FillerConfig{} || config.bias_init != FillerConfig{})) {
    return invalid_argument("has no parameters to begin with anything");
  }
  const bool of_bias =
      config.bias_lr_factor || config.bias_decay_factor || config.bias_init != FillerConfig{};
  if (!config.bias && of_bias) return invalid_argument("`bias: false` beside what its bias would be");
  if (!rule.may_lack_bias && !config.bias) return invalid_argument("has no `bias` that it could lack");
  const LayerConfig none;
  if (!rule.is_norm && (config.epsilon != none.epsilon || config.momentum != none.momentum ||
                        config.affine != none.affine || config.debias != none.debias)) {
    return invalid_argument("has no `epsilon`, `momentum`, `affine` and `debias`");
  }
  if (!rule.may_share && !config.weights_of.empty()) return invalid_argument("has no `weights_of`");
  if (!rule.is_slice && (config.part != 0 || config.parts != 0 || !config.points.empty())) {
    return invalid_argument("has no `part`, `parts` and `points`");
  }
  if (!rule.has_coefficients && !config.coefficients.empty())
    return invalid_argument("has no `coefficients`");
  if (!rule.is_loss && config.loss_weight != none.loss_weight)
    return invalid_argument("has no `loss_weight`");
  if (!rule.counts_hits && (config.ignore_label || config.top_k != none.top_k)) {
    return invalid_argument("has no `ignore_label` and `top_k`");
  }
  if (!rule.has_divisor && config.divisor != none.divisor) return invalid_argument("has no `divisor`");
  if (!rule.has_margin && (config.margin != none.margin || config.legacy != none.legacy)) {
    return invalid_argument("has no `margin` and `legacy`");
  }
  if (!rule.has_groups && config.groups != 1) return invalid_argument("has no `groups`");
  if (!rule.has_groups && config.dilation != 1) return invalid_argument("has no `dilation`");
  if (!rule.has_window_end && config.window_end != WindowEnd::kFloor) {
    return invalid_argument("has no `window_end`");
  }
  return Status::ok();
}

bool is_name(const std::string& name) {
  return name.size() <= kNameBytesMax && std::all_of(name.begin(), name.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
                  c == '-' || c == '.' || c == '/';
         });
}

// The layers' names, by index; those that are not given count the layers of their kind: conv1, conv2, fc1.
Result<std::vector<std::string>> names_of(const std::vector<LayerConfig>& configs) {
  std::map<LayerKind, int> counts;
  std::map<std::string, std::size_t> taken;
  std::vector<std::string> names;
  for (std::size_t i = 0; i < configs.size(); ++i) {
    const int number = ++counts[configs[i].kind];
    std::string name = configs[i].name;
    const auto refused = [&](const std::string& why) {
      return invalid_argument(place(i, configs[i].kind) + ": name " + name + why);
    };
    if (name.empty()) name = layer_rule(configs[i].kind).default_name + std::to_string(number);
    if (!is_name(name)) {
      return refused(", expected letters, digits, _, -, . and /, no more than " +
                     std::to_string(kNameBytesMax));
    }
    if (name == kImage) return refused(" is the image's, expected another");
    const auto [at, is_new] = taken.emplace(name, i);
    if (!is_new) return refused(" is that of " + key_of(at->second) + ", expected another");
    names.push_back(std::move(name));
  }
  return names;
}

// Builds the spec layer by layer.
class Builder {
 public:
  Builder(Shape input, std::int64_t classes, std::vector<std::string> names) : names_(std::move(names)) {
    spec_.input = input;
    spec_.classes = classes;
    for (std::size_t i = 0; i < names_.size(); ++i) values_.emplace(names_[i], i + 1);
    values_.emplace(kImage, 0);
  }

  Status add(const LayerConfig& config, std::int64_t batch_size) {
    const LayerRule& rule = layer_rule(config.kind);
    PACELINE_RETURN_IF_ERROR(check_unused_fields(config, rule));
    Layer layer;
    layer.kind = config.kind;
    layer.name = names_[spec_.layers.size()];
    PACELINE_ASSIGN_OR_RETURN(layer.inputs, inputs_of(config, rule));
    std::vector<Shape> in;
    for (const std::size_t value : layer.inputs) {
      in.push_back(spec_.shape_of(value));
      layer.is_vector = layer.is_vector || (value > 0 && spec_.layers[value - 1].is_vector);
    }
    layer.in = layer.out = in.front();
    LayerDraft draft(std::move(in), layer, spec_.layout);
    PACELINE_RETURN_IF_ERROR(rule.infer(config, draft));
    if (layer.out.size() > kActivationsMax) {
      return invalid_argument("its output " + to_string(layer.out) + " has " +
                              std::to_string(layer.out.size()) + " floats per sample; no more than " +
                              std::to_string(kActivationsMax) + " can be");
    }
    if (layer.mixes_samples()) PACELINE_RETURN_IF_ERROR(check_norm(layer, batch_size));
    spec_.layers.push_back(std::move(layer));
    return Status::ok();
  }

  // After the last.
  Status check_all_are_read() const {
    const std::vector<int> readers = spec_.readers();
    // Without losses the last one gives the logits.
    const std::size_t end = spec_.has_losses() ? readers.size() : readers.size() - 1;
    for (std::size_t value = 1; value < end; ++value) {
      const Layer& layer = spec_.layers[value - 1];
      if (readers[value] > 0 || layer.loss.is_one) continue;
      return invalid_argument(place(value - 1, layer.kind) + ": no layer reads " + layer.name +
                              ", expected one whose `from` names it");
    }
    return Status::ok();
  }

  // After the last: the last softmax_loss is the one that hits are counted by; all have a score for each class.
  Status finish_losses() {
    Layer* last = nullptr;
    for (std::size_t i = 0; i < spec_.layers.size(); ++i) {
      Layer& layer = spec_.layers[i];
      if (!layer_rule(layer.kind).counts_hits) continue;
      last = &layer;
      if (spec_.classes == kAnyClasses || layer.in.size() == spec_.classes) continue;
      return invalid_argument(place(i, layer.kind) + ": scores of out " + std::to_string(layer.in.size()) +
                              ", expected " + std::to_string(spec_.classes) + " (the number of classes)");
    }
    if (last != nullptr) last->loss.counts_hits = true;
    return Status::ok();
  }

  NetworkSpec take() { return std::move(spec_); }

 private:
  Result<std::vector<std::size_t>> inputs_of(const LayerConfig& config, const LayerRule& rule) const {
    std::vector<std::size_t> inputs;
    for (const std::string& name : config.from) {
      const auto value = values_.find(name);
      if (value == values_.end()) {
        return invalid_argument("from " + name + ", expected the name of a layer before it, or " + kImage);
      }
      if (value->second > spec_.layers.size()) {
        return invalid_argument("from " + name + ", which is not before it but " + key_of(value->second - 1) +
                                ", expected a layer before it: a network has no cycles");
      }
      inputs.push_back(value->second);
    }
    if (inputs.empty()) inputs.push_back(spec_.layers.size());
    for (const std::size_t value : inputs) {
      if (value == 0 || !spec_.layers[value - 1].loss.is_one) continue;
      return invalid_argument("from " + spec_.layers[value - 1].name +
                              ", which is a loss, expected another layer");
    }
    const auto count = static_cast<int>(inputs.size());
    if (count >= rule.inputs_min && count <= rule.inputs_max) return inputs;
    const std::string needed = std::to_string(rule.inputs_min) + (rule.inputs_max == rule.inputs_min ? ""
                                                                  : rule.inputs_max == 2             ? " or 2"
                                                                                         : " or more");
    return invalid_argument(std::to_string(count) + (count == 1 ? " input" : " inputs") + ", expected " +
                            needed);
  }

  // What has one value alone becomes 0, whatever it was, and no gradient gets through.
  static Status check_norm(const Layer& layer, std::int64_t batch_size) {
    const std::int64_t values = batch_size * layer.in.height * layer.in.width;
    if (values > 1) return Status::ok();
    return invalid_argument("normalises over one value: batch_size " + std::to_string(batch_size) +
                            " of a channel of " + std::to_string(layer.in.height) + "x" +
                            std::to_string(layer.in.width) + ", expected at least 2 values a channel");
  }

  NetworkSpec spec_;
  std::vector<std::string> names_;             // by layer
  std::map<std::string, std::size_t> values_;  // by name
};

}  // namespace

std::string to_string(const Shape& shape) {
  return std::to_string(shape.channels) + "x" + std::to_string(shape.height) + "x" +
         std::to_string(shape.width);
}

std::int64_t Layer::multiply_adds() const {
  return layer_rule(kind).sums_channels ? weight.size / out.channels * out.size() : 0;
}

std::int64_t NetworkSpec::trained() const {
  std::int64_t floats = layout.size();
  for (const Layer& layer : layers) floats -= layer.buffers();
  return floats;
}

std::vector<int> NetworkSpec::readers() const {
  std::vector<int> readers(layers.size() + 1);
  for (const Layer& layer : layers) {
    for (const std::size_t value : layer.inputs) ++readers[value];
  }
  return readers;
}

Result<NetworkSpec> build_network(const TrainSection& train, Shape input, std::int64_t classes) {
  PACELINE_ASSERT(input.channels > 0 && input.height > 0 && input.width > 0, to_string(input));
  PACELINE_ASSERT(classes >= kAnyClasses && classes <= kLayerOutMax, std::to_string(classes));
  PACELINE_ASSIGN_OR_RETURN(const std::vector<LayerConfig> configs, layers_of(train, classes));
  PACELINE_ASSIGN_OR_RETURN(std::vector<std::string> names, names_of(configs));
  Builder builder(input, classes, std::move(names));
  for (std::size_t i = 0; i < configs.size(); ++i) {
    PACELINE_RETURN_IF_ERROR(
        builder.add(configs[i], train.batch_size).with_context(place(i, configs[i].kind)));
  }
  // A network that is only looked at may have several ends.
  if (classes != kAnyClasses) PACELINE_RETURN_IF_ERROR(builder.check_all_are_read());
  PACELINE_RETURN_IF_ERROR(builder.finish_losses());
  NetworkSpec network = builder.take();
  network.label_smoothing = train.label_smoothing;
  if (network.has_losses()) {
    if (train.label_smoothing != 0.0) {
      return invalid_argument(
          "train.label_smoothing: is for a network whose last layer gives the logits, expected 0 "
          "beside loss layers");
    }
    if (classes == kAnyClasses) network.classes = network.layers.back().in.size();
    return network;
  }
  if (classes == kAnyClasses) {
    network.classes = network.layers.back().out.size();
    return network;
  }
  // Logits go straight into the softmax.
  const Layer& last = network.layers.back();
  const bool may_be_last = layer_rule(last.kind).gives_logits;
  if (!may_be_last || last.out != Shape{classes, 1, 1}) {
    const std::string got =
        may_be_last ? "out " + (last.out.height * last.out.width == 1 ? std::to_string(last.out.channels)
                                                                      : to_string(last.out))
                    : "it";
    return invalid_argument(place(configs.size() - 1, last.kind) + ": " + got +
                            " is last, expected dense with out " + std::to_string(classes) +
                            " (the number of classes)");
  }
  return network;
}

namespace {

Result<NetworkSpec> build_in_order(const RunConfig& config) {
  if (config.data.kind != DataKind::kImages) return build_network(config.train);
  const std::int64_t side = config.data.crop.size;
  return build_network(config.train, {3, side, side}, config.data.classes);
}

}  // namespace

Result<NetworkSpec> build_network(const RunConfig& config) {
  PACELINE_ASSIGN_OR_RETURN(NetworkSpec network, build_in_order(config));
  if (config.pipeline.chunks_of_stage() == 1) return network;
  // A cut that there is not is refused by who asks for it (check_pipeline.cc).
  const auto chunks = stages_of_run(config, network);
  if (chunks.is_ok()) lay_out_by_stages(network, *chunks, config.pipeline.stages);
  return network;
}

namespace {

Fans fans_of(const Layer& layer) {
  const std::int64_t in = layer.weight.size / layer.out.channels;
  // A dense layer's weight has no places: its second dimension is all of its inputs.
  const bool slides = layer_rule(layer.kind).window != nullptr;
  const std::int64_t second = slides ? layer.in.channels / layer.groups : in;
  return {static_cast<double>(in), static_cast<double>(layer.weight.size / second),
          static_cast<double>(layer.out.channels)};
}

}  // namespace

void initialize_parameters(const NetworkSpec& network, std::uint64_t seed, std::span<float> parameters) {
  PACELINE_ASSERT(
      static_cast<std::int64_t>(parameters.size()) == network.layout.size(),
      std::to_string(parameters.size()) + " floats, expected " + std::to_string(network.layout.size()));
  std::uint64_t tensor = 0;
  for (const Layer& layer : network.layers) {
    if (layer.tensors().size == 0) continue;
    const auto of = [&](const ParameterRange& range) { return parameters.subspan(range.offset, range.size); };
    const std::span<float> variance = of(layer.running_variance);
    std::ranges::fill(of(layer.running_mean), 0.0F);
    std::fill(variance.begin(), variance.end(), layer.running_weight.size > 0 ? 0.0F : 1.0F);
    std::ranges::fill(of(layer.running_weight), 0.0F);
    if (layer.weight.size == 0) continue;
    CounterRandom random(seed, Stream::kInitialParameters, tensor);
    if (layer.weight_init.kind != FillerKind::kUsual) {
      fill(layer.weight_init, fans_of(layer), random, of(layer.weight));
    } else {
      const double bound = 1.0 / std::sqrt(fans_of(layer).in);
      for (float& value : of(layer.weight)) {
        value = static_cast<float>((2.0 * random.next_float() - 1.0) * bound);
      }
    }
    const std::span<float> bias = of(layer.bias);
    if (layer.bias_init.kind != FillerKind::kUsual) {
      const auto count = static_cast<double>(layer.bias.size);
      fill(layer.bias_init, {1.0, count, count}, CounterRandom(seed, Stream::kInitialParameters, tensor + 1),
           bias);
    } else {
      std::fill(bias.begin(), bias.end(), 0.0F);
    }
    tensor += 2;  // weight, bias
  }
}

}  // namespace paceline
