#include "common/network/layer_rule.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "common/assert.h"

namespace paceline {

#define PACELINE_RULE(key, name, on_gpu) \
  namespace layers::name {               \
  extern const LayerRule kRule;          \
  }
PACELINE_LAYER_KINDS(PACELINE_RULE)
#undef PACELINE_RULE

const LayerRule& layer_rule(LayerKind kind) {
  switch (kind) {
#define PACELINE_CASE(key, name, on_gpu) \
  case LayerKind::key:                   \
    return layers::name::kRule;
    PACELINE_LAYER_KINDS(PACELINE_CASE)
#undef PACELINE_CASE
  }
  PACELINE_ASSERT(false, "layer kind " + std::to_string(static_cast<int>(kind)));
}

namespace {

constexpr std::int64_t kKernelMax = 1 << 10;  // pixels

}  // namespace

Status check_range(const char* field, std::int64_t value, std::int64_t low, std::int64_t high) {
  if (value >= low && value <= high) return Status::ok();
  return invalid_argument(std::string(field) + " " + std::to_string(value) + ", expected " +
                          std::to_string(low) + " to " + std::to_string(high));
}

Status LayerDraft::slide_window(const LayerConfig& config, const WindowDefaults& defaults) {
  const Shape& in = layer_.in;
  if (layer_.is_vector) {
    return invalid_argument("needs an image, but its input is a vector of " + std::to_string(in.size()) +
                            " units");
  }
  PACELINE_RETURN_IF_ERROR(check_range("kernel", config.kernel, 1, kKernelMax));
  layer_.kernel = config.kernel;
  layer_.stride = config.stride == 0 ? defaults.stride : config.stride;
  layer_.padding = config.padding == -1 ? defaults.padding : config.padding;
  PACELINE_RETURN_IF_ERROR(check_range("stride", layer_.stride, 1, kKernelMax));
  PACELINE_RETURN_IF_ERROR(check_range("dilation", config.dilation, 1, kKernelMax));
  layer_.dilation = config.dilation;
  const std::int64_t extent = layer_.dilation * (layer_.kernel - 1) + 1;
  // A window may not lie wholly in the padding: a pool would have no maximum there.
  PACELINE_RETURN_IF_ERROR(check_range("padding", layer_.padding, 0, extent - 1));
  const std::int64_t rows = in.height + 2 * layer_.padding - extent;
  const std::int64_t columns = in.width + 2 * layer_.padding - extent;
  if (rows < 0 || columns < 0) {
    const std::string dilated =
        layer_.dilation == 1 ? "" : " with dilation " + std::to_string(layer_.dilation);
    return invalid_argument("kernel " + std::to_string(layer_.kernel) + dilated +
                            " is larger than its input " + to_string(in) + " with padding " +
                            std::to_string(layer_.padding));
  }
  PACELINE_ASSIGN_OR_RETURN(layer_.out.height, windows(config.window_end, rows, in.height));
  PACELINE_ASSIGN_OR_RETURN(layer_.out.width, windows(config.window_end, columns, in.width));
  return Status::ok();
}

// `room`: the places after the first of one; `size`: of the input, without its padding.
Result<std::int64_t> LayerDraft::windows(WindowEnd end, std::int64_t room, std::int64_t size) const {
  if (end == WindowEnd::kFloor) return room / layer_.stride + 1;
  std::int64_t count = (room + layer_.stride - 1) / layer_.stride + 1;
  // Caffe: one that would begin in the padding after the image is left out.
  if (layer_.padding > 0 && (count - 1) * layer_.stride >= size + layer_.padding) --count;
  if ((count - 1) * layer_.stride < size + layer_.padding) return count;
  return invalid_argument("its last window would be empty: window_end ceil, kernel " +
                          std::to_string(layer_.kernel) + ", stride " + std::to_string(layer_.stride) +
                          ", input " + to_string(layer_.in) + ", expected a stride of at most the kernel");
}

Status LayerDraft::become_loss(const LayerConfig& config) {
  if (!(config.loss_weight >= 0.0 && std::isfinite(config.loss_weight))) {
    return invalid_argument("loss_weight " + std::to_string(config.loss_weight) + ", expected 0 or more");
  }
  layer_.loss.is_one = true;
  layer_.loss.weight = config.loss_weight;
  layer_.out = {1, 1, 1};
  layer_.is_vector = true;
  return Status::ok();
}

Status LayerDraft::check_one_shape() const {
  for (const Shape& shape : in_) {
    if (shape == in_.front()) continue;
    return invalid_argument("inputs of " + to_string(in_.front()) + " and " + to_string(shape) +
                            ", expected inputs of one shape");
  }
  return Status::ok();
}

Status LayerDraft::check_compared() const {
  if (in_.size() > 1 && in_[0].size() != in_[1].size()) {
    return invalid_argument("inputs of " + to_string(in_[0]) + " and " + to_string(in_[1]) +
                            ", expected inputs of one size");
  }
  if (in_.size() > 1 || in_[0].size() == 1) return Status::ok();
  return invalid_argument("one input of " + to_string(in_[0]) +
                          ", expected two, or one number that is compared with the label");
}

Status LayerDraft::share_parameters(const LayerConfig& config,
                                    const std::vector<std::int64_t>& weight_shape) {
  const LayerConfig none;
  if (config.lr_factor != 1.0 || config.decay_factor != 1.0 || config.bias_lr_factor ||
      config.bias_decay_factor || config.weight_init != none.weight_init ||
      config.bias_init != none.bias_init) {
    return invalid_argument("weights_of " + config.weights_of +
                            " beside factors or fillers of its own, expected that layer's alone");
  }
  layer_.shares_weights = true;
  PACELINE_ASSIGN_OR_RETURN(layer_.weight, shared_tensor(config.weights_of + ".weight", weight_shape));
  if (!config.bias) return Status::ok();
  PACELINE_ASSIGN_OR_RETURN(layer_.bias, shared_tensor(config.weights_of + ".bias", {weight_shape.front()}));
  return Status::ok();
}

Result<ParameterRange> LayerDraft::shared_tensor(const std::string& name,
                                                 const std::vector<std::int64_t>& shape) const {
  const auto shown = [](const std::vector<std::int64_t>& dims) {
    std::string text;
    for (const std::int64_t dim : dims) text += (text.empty() ? "" : "x") + std::to_string(dim);
    return text;
  };
  const auto& tensors = layout_.tensors();
  const auto at =
      std::find_if(tensors.begin(), tensors.end(), [&](const Tensor& tensor) { return tensor.name == name; });
  if (at == tensors.end()) {
    return invalid_argument("weights_of: there is no " + name +
                            ", expected a layer before it with weights of its own");
  }
  if (at->shape != shape) {
    return invalid_argument("weights_of: " + name + " is " + shown(at->shape) + ", expected " + shown(shape));
  }
  return ParameterRange{at->offset, at->size()};
}

Status LayerDraft::add_parameters(const LayerConfig& config, std::vector<std::int64_t> weight_shape,
                                  TensorRole weight_role) {
  if (!config.weights_of.empty()) return share_parameters(config, weight_shape);
  const std::int64_t outputs = weight_shape.front();
  const TensorRole bias_role = weight_role == TensorRole::kNorm ? TensorRole::kNorm : TensorRole::kBias;
  layer_.weight_init = config.weight_init;
  layer_.bias_init = config.bias_init;
  PACELINE_ASSIGN_OR_RETURN(layer_.weight, add_tensor(layer_.name + ".weight", std::move(weight_shape),
                                                      {weight_role, config.lr_factor, config.decay_factor}));
  if (!config.bias) return Status::ok();
  PACELINE_ASSIGN_OR_RETURN(layer_.bias,
                            add_tensor(layer_.name + ".bias", {outputs},
                                       {bias_role, config.bias_lr_factor.value_or(config.lr_factor),
                                        config.bias_decay_factor.value_or(config.decay_factor)}));
  return Status::ok();
}

Status LayerDraft::add_norm(const LayerConfig& config) {
  const std::vector<std::int64_t> channels = {layer_.out.channels};
  layer_.weight_init = config.weight_init;
  layer_.bias_init = config.bias_init;
  if (layer_.weight_init.kind == FillerKind::kUsual) {
    layer_.weight_init = {.kind = FillerKind::kConstant, .value = 1.0};
  }
  const double bias_lr = config.bias_lr_factor.value_or(config.lr_factor);
  const double bias_decay = config.bias_decay_factor.value_or(config.decay_factor);
  const TensorTraits buffer{TensorRole::kBuffer, config.momentum, 0.0};
  if (config.affine) {
    PACELINE_ASSIGN_OR_RETURN(layer_.weight,
                              add_tensor(layer_.name + ".weight", channels,
                                         {TensorRole::kNorm, config.lr_factor, config.decay_factor}));
    PACELINE_ASSIGN_OR_RETURN(
        layer_.bias, add_tensor(layer_.name + ".bias", channels, {TensorRole::kNorm, bias_lr, bias_decay}));
  }
  PACELINE_ASSIGN_OR_RETURN(layer_.running_mean, add_tensor(layer_.name + ".running_mean", channels, buffer));
  PACELINE_ASSIGN_OR_RETURN(layer_.running_variance,
                            add_tensor(layer_.name + ".running_var", channels, buffer));
  if (!config.debias) return Status::ok();
  PACELINE_ASSIGN_OR_RETURN(layer_.running_weight, add_tensor(layer_.name + ".running_weight", {1}, buffer));
  return Status::ok();
}

Result<ParameterRange> LayerDraft::add_tensor(const std::string& name, std::vector<std::int64_t> shape,
                                              const TensorTraits& traits) {
  PACELINE_ASSIGN_OR_RETURN(const std::size_t index, layout_.add(name, std::move(shape), traits));
  const Tensor& tensor = layout_.tensors()[index];
  return ParameterRange{tensor.offset, tensor.size()};
}

}  // namespace paceline
