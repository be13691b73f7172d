// One layer of Caffe's as one of ours, or why it is none: the numbers of layers/*.cpp and their defaults.
#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

#include "common/caffe/net_of.h"
#include "common/label.h"

namespace paceline::caffe {
namespace {

Status refuse(const std::string& what, const std::string& expected) {
  return invalid_argument(what + ", expected " + expected);
}

// A number that may be given once for both directions, once for each, or as _h and _w.
template <typename Numbers>
Result<std::int64_t> square(const char* name, const Numbers& both, std::optional<std::int64_t> height,
                            std::optional<std::int64_t> width, std::int64_t fallback) {
  if (height || width) {
    if (!both.empty()) return refuse(std::string(name) + " and its _h and _w", "one of the two");
    const std::int64_t h = height.value_or(fallback);
    const std::int64_t w = width.value_or(fallback);
    if (h == w) return h;
    return refuse(std::string(name) + " " + std::to_string(h) + " x " + std::to_string(w), "a square");
  }
  if (both.empty()) return fallback;
  const auto first = static_cast<std::int64_t>(*both.begin());
  for (const auto other : both) {
    if (static_cast<std::int64_t>(other) == first) continue;
    return refuse(std::string(name) + " " + std::to_string(first) + " x " + std::to_string(other),
                  "a square");
  }
  return first;
}

template <typename T>
std::optional<std::int64_t> given(bool has, T value) {
  return has ? std::optional<std::int64_t>(value) : std::nullopt;
}

Result<FillerConfig> filler(const FillerParameter& from) {
  FillerConfig to;
  to.value = decimal(from.value());
  to.low = decimal(from.min());
  to.high = decimal(from.max());
  to.mean = decimal(from.mean());
  to.std = decimal(from.std());
  to.sparse = std::max(0, from.sparse());
  to.norm = from.variance_norm() == FillerParameter::FAN_IN    ? FillerNorm::kFanIn
            : from.variance_norm() == FillerParameter::FAN_OUT ? FillerNorm::kFanOut
                                                               : FillerNorm::kAverage;
  static const std::map<std::string, FillerKind> kKinds = {{"constant", FillerKind::kConstant},
                                                           {"uniform", FillerKind::kUniform},
                                                           {"gaussian", FillerKind::kGaussian},
                                                           {"xavier", FillerKind::kXavier},
                                                           {"msra", FillerKind::kMsra}};
  const auto kind = kKinds.find(from.type());
  if (kind == kKinds.end()) {
    return refuse("filler " + from.type(), "constant, uniform, gaussian, xavier or msra");
  }
  to.kind = kind->second;
  // Only what the kind reads, so that equal fillers are equal.
  const FillerConfig none;
  if (to.kind != FillerKind::kConstant) to.value = none.value;
  if (to.kind != FillerKind::kUniform) std::tie(to.low, to.high) = std::tie(none.low, none.high);
  if (to.kind != FillerKind::kGaussian) {
    std::tie(to.mean, to.std, to.sparse) = std::tie(none.mean, none.std, none.sparse);
  }
  if (to.kind != FillerKind::kXavier && to.kind != FillerKind::kMsra) to.norm = none.norm;
  return to;
}

// Weight and bias: factors, and what they begin with.
template <typename Param>
Status read_parameters(const LayerParameter& layer, const Param& param, LayerConfig& to) {
  PACELINE_RETURN_IF_ERROR(read_factors(layer, param.bias_term(), to));
  PACELINE_ASSIGN_OR_RETURN(to.weight_init, filler(param.weight_filler()));
  if (to.bias) {
    PACELINE_ASSIGN_OR_RETURN(to.bias_init, filler(param.bias_filler()));
  }
  return Status::ok();
}

Status convolution(const LayerParameter& layer, LayerConfig& to) {
  const ConvolutionParameter& param = layer.convolution_param();
  to.kind = LayerKind::kConv;
  to.out = param.num_output();
  if (param.axis() != 1) return refuse("axis " + std::to_string(param.axis()), "1");
  PACELINE_ASSIGN_OR_RETURN(
      to.kernel, square("kernel_size", param.kernel_size(), given(param.has_kernel_h(), param.kernel_h()),
                        given(param.has_kernel_w(), param.kernel_w()), 0));
  PACELINE_ASSIGN_OR_RETURN(to.stride,
                            square("stride", param.stride(), given(param.has_stride_h(), param.stride_h()),
                                   given(param.has_stride_w(), param.stride_w()), 1));
  PACELINE_ASSIGN_OR_RETURN(to.padding, square("pad", param.pad(), given(param.has_pad_h(), param.pad_h()),
                                               given(param.has_pad_w(), param.pad_w()), 0));
  PACELINE_ASSIGN_OR_RETURN(to.dilation, square("dilation", param.dilation(), {}, {}, 1));
  to.groups = param.group();
  return read_parameters(layer, param, to);
}

Status pooling(const LayerParameter& layer, LayerConfig& to) {
  const PoolingParameter& param = layer.pooling_param();
  if (param.pool() == PoolingParameter::STOCHASTIC) return refuse("pool STOCHASTIC", "MAX or AVE");
  if (param.global_pooling()) {
    if (param.pool() != PoolingParameter::AVE) return refuse("global_pooling with MAX", "AVE");
    to.kind = LayerKind::kGlobalAveragePool;
    return Status::ok();
  }
  to.kind = param.pool() == PoolingParameter::MAX ? LayerKind::kPool : LayerKind::kAveragePool;
  const auto one = [](bool has, std::int64_t value) {
    return has ? std::vector<std::int64_t>{value} : std::vector<std::int64_t>{};
  };
  PACELINE_ASSIGN_OR_RETURN(to.kernel,
                            square("kernel_size", one(param.has_kernel_size(), param.kernel_size()),
                                   given(param.has_kernel_h(), param.kernel_h()),
                                   given(param.has_kernel_w(), param.kernel_w()), 0));
  PACELINE_ASSIGN_OR_RETURN(to.stride, square("stride", one(param.has_stride(), param.stride()),
                                              given(param.has_stride_h(), param.stride_h()),
                                              given(param.has_stride_w(), param.stride_w()), 1));
  PACELINE_ASSIGN_OR_RETURN(
      to.padding, square("pad", one(param.has_pad(), param.pad()), given(param.has_pad_h(), param.pad_h()),
                         given(param.has_pad_w(), param.pad_w()), 0));
  to.window_end = param.round_mode() == PoolingParameter::CEIL ? WindowEnd::kCeil : WindowEnd::kFloor;
  return Status::ok();
}

Status inner_product(const LayerParameter& layer, LayerConfig& to) {
  const InnerProductParameter& param = layer.inner_product_param();
  to.kind = LayerKind::kDense;
  to.out = param.num_output();
  if (param.axis() != 1) return refuse("axis " + std::to_string(param.axis()), "1");
  if (param.transpose()) return refuse("transpose: true", "false");
  return read_parameters(layer, param, to);
}

Status lrn(const LayerParameter& layer, LayerConfig& to) {
  const LRNParameter& param = layer.lrn_param();
  to.kind = LayerKind::kLrn;
  to.size = param.local_size();
  to.alpha = decimal(param.alpha());
  to.beta = decimal(param.beta());
  to.region = param.norm_region() == LRNParameter::ACROSS_CHANNELS ? LrnRegion::kAcross : LrnRegion::kWithin;
  if (to.region == LrnRegion::kAcross) to.k = decimal(param.k());  // within a channel Caffe takes 1
  return Status::ok();
}

Status relu(const LayerParameter& layer, LayerConfig& to) {
  to.kind = LayerKind::kRelu;
  if (layer.relu_param().negative_slope() == 0.0F) return Status::ok();
  return refuse("negative_slope " + std::to_string(layer.relu_param().negative_slope()), "0");
}

Status dropout(const LayerParameter& layer, LayerConfig& to) {
  to.kind = LayerKind::kDropout;
  to.rate = decimal(layer.dropout_param().dropout_ratio());
  if (!layer.dropout_param().scale_train()) return refuse("scale_train: false", "true");
  return Status::ok();
}

Status concat(const LayerParameter& layer, LayerConfig& to) {
  const ConcatParameter& param = layer.concat_param();
  to.kind = LayerKind::kConcat;
  const std::int64_t axis = param.has_concat_dim() ? param.concat_dim() : param.axis();
  return axis == 1 ? Status::ok() : refuse("axis " + std::to_string(axis), "1: channels");
}

Status flatten(const LayerParameter& layer, LayerConfig& to) {
  to.kind = LayerKind::kFlatten;
  const FlattenParameter& param = layer.flatten_param();
  if (param.axis() == 1 && (param.end_axis() == -1 || param.end_axis() == 3)) return Status::ok();
  return refuse("axes " + std::to_string(param.axis()) + " to " + std::to_string(param.end_axis()),
                "all after the first");
}

Status eltwise(const LayerParameter& layer, LayerConfig& to) {
  const EltwiseParameter& param = layer.eltwise_param();
  to.kind = param.operation() == EltwiseParameter::SUM    ? LayerKind::kAdd
            : param.operation() == EltwiseParameter::PROD ? LayerKind::kMultiply
                                                          : LayerKind::kMaximum;
  if (param.coeff_size() == 0) return Status::ok();
  if (to.kind != LayerKind::kAdd) return refuse("coeff with PROD or MAX", "SUM");
  if (param.coeff_size() != layer.bottom_size()) {
    return refuse(std::to_string(param.coeff_size()) + " coeff",
                  "one for each of its " + std::to_string(layer.bottom_size()) + " bottoms");
  }
  if (std::any_of(param.coeff().begin(), param.coeff().end(), [](float each) { return each != 1.0F; })) {
    for (const float coefficient : param.coeff()) to.coefficients.push_back(decimal(coefficient));
  }
  return Status::ok();
}

// Neither scale nor shift: those are a Scale layer's. Its running statistics are sums that are divided by the sum of
// their weights: a third blob.
Status batch_norm(const LayerParameter& layer, LayerConfig& to) {
  const BatchNormParameter& param = layer.batch_norm_param();
  to.kind = LayerKind::kBatchNorm;
  to.affine = false;
  to.debias = true;
  to.decay_factor = 0.0;
  to.epsilon = decimal(param.eps());
  // To nine places, as 1 - 0.999 is not 0.001.
  to.momentum = std::round((1.0 - decimal(param.moving_average_fraction())) * 1e9) / 1e9;
  if (layer.param_size() > 3) return refuse(std::to_string(layer.param_size()) + " param", "no more than 3");
  for (const ParamSpec& spec : layer.param()) {
    if (!spec.name().empty()) return refuse("param " + spec.name(), "statistics of its own, without a name");
  }
  return Status::ok();
}

Status scale(const LayerParameter& layer, LayerConfig& to) {
  const ScaleParameter& param = layer.scale_param();
  to.kind = LayerKind::kScale;
  if (layer.bottom_size() != 1)
    return refuse(std::to_string(layer.bottom_size()) + " bottoms", "one: the scale is its own");
  if (param.axis() != 1 || param.num_axes() != 1) {
    return refuse(
        "axis " + std::to_string(param.axis()) + " and num_axes " + std::to_string(param.num_axes()),
        "1 and 1: channels");
  }
  PACELINE_RETURN_IF_ERROR(read_factors(layer, param.bias_term(), to));
  if (param.has_filler()) {
    PACELINE_ASSIGN_OR_RETURN(to.weight_init, filler(param.filler()));
  }
  if (to.bias && param.has_bias_filler()) {
    PACELINE_ASSIGN_OR_RETURN(to.bias_init, filler(param.bias_filler()));
  }
  return Status::ok();
}

Status kind_alone(LayerKind kind, LayerConfig& to) {
  to.kind = kind;
  return Status::ok();
}

using Read = std::function<Status(const LayerParameter&, LayerConfig&)>;

const std::map<std::string, Read>& readers() {
  static const std::map<std::string, Read> kReaders = {
      {"Convolution", convolution},
      {"Pooling", pooling},
      {"InnerProduct", inner_product},
      {"LRN", lrn},
      {"ReLU", relu},
      {"Dropout", dropout},
      {"Concat", concat},
      {"Flatten", flatten},
      {"Eltwise", eltwise},
      {"BatchNorm", batch_norm},
      {"Scale", scale},
      {"Sigmoid", [](const auto&, LayerConfig& to) { return kind_alone(LayerKind::kSigmoid, to); }},
      {"TanH", [](const auto&, LayerConfig& to) { return kind_alone(LayerKind::kTanh, to); }},
  };
  return kReaders;
}

// What a loss's sum is divided by. `usual`: where the file does not say.
Result<LossDivisor> divisor(const LossParameter& param, LossParameter::NormalizationMode usual) {
  LossParameter::NormalizationMode mode = usual;
  if (param.has_normalize()) mode = param.normalize() ? LossParameter::VALID : LossParameter::BATCH_SIZE;
  if (param.has_normalization()) mode = param.normalization();
  switch (mode) {
    case LossParameter::FULL:
      return LossDivisor::kElements;
    case LossParameter::VALID:
      return LossDivisor::kValid;
    case LossParameter::BATCH_SIZE:
      return LossDivisor::kSamples;
    case LossParameter::NONE:
      break;
  }
  return refuse("normalization NONE", "a mean: VALID, FULL or BATCH_SIZE");
}

Status softmax_loss(const LayerParameter& layer, LayerConfig& to) {
  to.kind = LayerKind::kSoftmaxLoss;
  if (layer.softmax_param().axis() != 1) {
    return refuse("softmax axis " + std::to_string(layer.softmax_param().axis()), "1");
  }
  if (layer.loss_param().has_ignore_label()) {
    const std::int64_t ignored = layer.loss_param().ignore_label();
    if (ignored < -1 || ignored >= kClassesMax) {
      return refuse("ignore_label " + std::to_string(ignored), "-1 to " + std::to_string(kClassesMax - 1));
    }
    to.ignore_label = ignored;
  }
  PACELINE_ASSIGN_OR_RETURN(to.divisor, divisor(layer.loss_param(), LossParameter::VALID));
  // A sample has one loss, and counts unless its label is ignored.
  if (to.divisor == LossDivisor::kElements || !to.ignore_label) to.divisor = LossDivisor::kSamples;
  return Status::ok();
}

Status sigmoid_loss(const LayerParameter& layer, LayerConfig& to) {
  to.kind = LayerKind::kSigmoidLoss;
  if (layer.loss_param().has_ignore_label()) return refuse("ignore_label", "none");
  PACELINE_ASSIGN_OR_RETURN(to.divisor, divisor(layer.loss_param(), LossParameter::BATCH_SIZE));
  if (to.divisor == LossDivisor::kValid) to.divisor = LossDivisor::kElements;  // all of them count
  return Status::ok();
}

Status contrastive_loss(const LayerParameter& layer, LayerConfig& to) {
  to.kind = LayerKind::kContrastiveLoss;
  to.margin = decimal(layer.contrastive_loss_param().margin());
  to.legacy = layer.contrastive_loss_param().legacy_version();
  return Status::ok();
}

const std::map<std::string, Read>& loss_readers() {
  static const std::map<std::string, Read> kReaders = {
      {"SoftmaxWithLoss", softmax_loss},
      {"SigmoidCrossEntropyLoss", sigmoid_loss},
      {"EuclideanLoss",
       [](const auto&, LayerConfig& to) { return kind_alone(LayerKind::kEuclideanLoss, to); }},
      {"ContrastiveLoss", contrastive_loss},
  };
  return kReaders;
}

// As one of `known` reads it.
Result<LayerConfig> config_by(const std::map<std::string, Read>& known, const LayerParameter& layer) {
  LayerConfig to;
  to.name = layer.name();
  const auto read = known.find(layer.type());
  if (read != known.end()) {
    PACELINE_RETURN_IF_ERROR(read->second(layer, to));
    return to;
  }
  std::string names;
  for (const auto& [type, ignored] : known) names += (names.empty() ? "" : ", ") + type;
  return refuse("type " + (layer.type().empty() ? "missing" : layer.type()) + " cannot be trained here",
                "one of " + names);
}

}  // namespace

Status read_factors(const LayerParameter& layer, bool has_bias, LayerConfig& to) {
  to.bias = has_bias;
  if (layer.param_size() > (has_bias ? 2 : 1)) {
    return refuse(std::to_string(layer.param_size()) + " param",
                  has_bias ? "no more than 2: of the weight and the bias" : "no more than 1: it has no bias");
  }
  const ParamSpec none;
  const ParamSpec& weight = layer.param_size() > 0 ? layer.param(0) : none;
  const ParamSpec& bias = layer.param_size() > 1 ? layer.param(1) : none;
  for (const ParamSpec* spec : {&weight, &bias}) {
    if (spec->lr_mult() < 0 || spec->decay_mult() < 0) {
      return refuse("a negative lr_mult or decay_mult", "0 or more");
    }
  }
  to.lr_factor = decimal(weight.lr_mult());
  to.decay_factor = decimal(weight.decay_mult());
  to.bias_lr_factor.reset();
  to.bias_decay_factor.reset();
  if (!has_bias) return Status::ok();
  if (bias.lr_mult() != weight.lr_mult()) to.bias_lr_factor = decimal(bias.lr_mult());
  if (bias.decay_mult() != weight.decay_mult()) to.bias_decay_factor = decimal(bias.decay_mult());
  return Status::ok();
}

std::vector<LayerConfig> slices(const LayerParameter& layer) {
  std::vector<LayerConfig> parts;
  const SliceParameter& param = layer.slice_param();
  for (int i = 0; i < layer.top_size(); ++i) {
    LayerConfig to;
    to.kind = LayerKind::kSlice;
    to.name = layer.name() + "/" + layer.top(i);
    to.part = i;
    to.parts = layer.top_size();
    to.points.assign(param.slice_point().begin(), param.slice_point().end());
    parts.push_back(std::move(to));
  }
  return parts;
}

Result<LayerConfig> loss_config(const LayerParameter& layer) {
  PACELINE_ASSIGN_OR_RETURN(LayerConfig to, config_by(loss_readers(), layer));
  if (layer.loss_weight_size() > 0) to.loss_weight = decimal(layer.loss_weight(0));
  if (to.loss_weight >= 0.0) return to;
  return refuse("loss_weight " + std::to_string(to.loss_weight), "0 or more");
}

Result<LayerConfig> layer_config(const LayerParameter& layer) {
  for (const float weight : layer.loss_weight()) {
    if (weight != 0.0F)
      return refuse("loss_weight " + std::to_string(weight), "none of a layer that is no loss");
  }
  return config_by(readers(), layer);
}

}  // namespace paceline::caffe
