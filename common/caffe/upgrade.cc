// Old files as Caffe itself upgrades them: util/upgrade_proto.cpp.
#include <charconv>
#include <map>

#include "common/caffe/net_of.h"

namespace paceline::caffe {
namespace {

using Type = V1LayerParameter::LayerType;

std::string type_name(Type type) {
  static const std::map<Type, const char*> kNames = {
      {V1LayerParameter::ABSVAL, "AbsVal"},
      {V1LayerParameter::ACCURACY, "Accuracy"},
      {V1LayerParameter::ARGMAX, "ArgMax"},
      {V1LayerParameter::BNLL, "BNLL"},
      {V1LayerParameter::CONCAT, "Concat"},
      {V1LayerParameter::CONTRASTIVE_LOSS, "ContrastiveLoss"},
      {V1LayerParameter::CONVOLUTION, "Convolution"},
      {V1LayerParameter::DATA, "Data"},
      {V1LayerParameter::DECONVOLUTION, "Deconvolution"},
      {V1LayerParameter::DROPOUT, "Dropout"},
      {V1LayerParameter::DUMMY_DATA, "DummyData"},
      {V1LayerParameter::ELTWISE, "Eltwise"},
      {V1LayerParameter::EUCLIDEAN_LOSS, "EuclideanLoss"},
      {V1LayerParameter::EXP, "Exp"},
      {V1LayerParameter::FLATTEN, "Flatten"},
      {V1LayerParameter::HDF5_DATA, "HDF5Data"},
      {V1LayerParameter::HDF5_OUTPUT, "HDF5Output"},
      {V1LayerParameter::HINGE_LOSS, "HingeLoss"},
      {V1LayerParameter::IM2COL, "Im2col"},
      {V1LayerParameter::IMAGE_DATA, "ImageData"},
      {V1LayerParameter::INFOGAIN_LOSS, "InfogainLoss"},
      {V1LayerParameter::INNER_PRODUCT, "InnerProduct"},
      {V1LayerParameter::LRN, "LRN"},
      {V1LayerParameter::MEMORY_DATA, "MemoryData"},
      {V1LayerParameter::MULTINOMIAL_LOGISTIC_LOSS, "MultinomialLogisticLoss"},
      {V1LayerParameter::MVN, "MVN"},
      {V1LayerParameter::POOLING, "Pooling"},
      {V1LayerParameter::POWER, "Power"},
      {V1LayerParameter::RELU, "ReLU"},
      {V1LayerParameter::SIGMOID, "Sigmoid"},
      {V1LayerParameter::SIGMOID_CROSS_ENTROPY_LOSS, "SigmoidCrossEntropyLoss"},
      {V1LayerParameter::SILENCE, "Silence"},
      {V1LayerParameter::SLICE, "Slice"},
      {V1LayerParameter::SOFTMAX, "Softmax"},
      {V1LayerParameter::SOFTMAX_LOSS, "SoftmaxWithLoss"},
      {V1LayerParameter::SPLIT, "Split"},
      {V1LayerParameter::TANH, "TanH"},
      {V1LayerParameter::THRESHOLD, "Threshold"},
      {V1LayerParameter::WINDOW_DATA, "WindowData"},
  };
  const auto at = kNames.find(type);
  return at == kNames.end() ? "" : at->second;
}

// The old fields of a data layer's own parameter, where transform_param does not say otherwise.
template <typename Param>
void move_transform(const Param& from, TransformationParameter& to) {
  if (from.has_scale()) to.set_scale(from.scale());
  if (from.has_mean_file()) to.set_mean_file(from.mean_file());
  if (from.has_crop_size()) to.set_crop_size(from.crop_size());
  if (from.has_mirror()) to.set_mirror(from.mirror());
}

}  // namespace

double decimal(float value) {
  char text[32];
  const auto written = std::to_chars(text, text + sizeof(text), value);
  double read = value;
  std::from_chars(text, written.ptr, read);
  return read;
}

Result<LayerParameter> upgraded(const V1LayerParameter& old, const std::string& where) {
  const std::string type = type_name(old.type());
  if (type.empty()) {
    return invalid_argument(where + ": layer " + old.name() +
                            ": no type, expected one; the form with `layers { layer {` is too old");
  }
  LayerParameter layer;
  layer.set_name(old.name());
  layer.set_type(type);
  *layer.mutable_bottom() = old.bottom();
  *layer.mutable_top() = old.top();
  *layer.mutable_include() = old.include();
  *layer.mutable_exclude() = old.exclude();
  *layer.mutable_loss_weight() = old.loss_weight();
  *layer.mutable_blobs() = old.blobs();
  const int params = std::max({old.param_size(), old.blobs_lr_size(), old.weight_decay_size()});
  for (int i = 0; i < params; ++i) {
    ParamSpec& param = *layer.add_param();
    if (i < old.param_size()) param.set_name(old.param(i));
    if (i < old.blobs_lr_size()) param.set_lr_mult(old.blobs_lr(i));
    if (i < old.weight_decay_size()) param.set_decay_mult(old.weight_decay(i));
  }
#define PACELINE_MOVE(field) \
  if (old.has_##field()) *layer.mutable_##field() = old.field();
  PACELINE_MOVE(accuracy_param)
  PACELINE_MOVE(concat_param)
  PACELINE_MOVE(contrastive_loss_param)
  PACELINE_MOVE(convolution_param)
  PACELINE_MOVE(data_param)
  PACELINE_MOVE(dropout_param)
  PACELINE_MOVE(eltwise_param)
  PACELINE_MOVE(image_data_param)
  PACELINE_MOVE(inner_product_param)
  PACELINE_MOVE(loss_param)
  PACELINE_MOVE(lrn_param)
  PACELINE_MOVE(pooling_param)
  PACELINE_MOVE(relu_param)
  PACELINE_MOVE(sigmoid_param)
  PACELINE_MOVE(slice_param)
  PACELINE_MOVE(softmax_param)
  PACELINE_MOVE(tanh_param)
  PACELINE_MOVE(transform_param)
#undef PACELINE_MOVE
  return layer;
}

void upgrade_transform(LayerParameter& layer) {
  if (layer.has_data_param()) move_transform(layer.data_param(), *layer.mutable_transform_param());
  if (layer.has_image_data_param())
    move_transform(layer.image_data_param(), *layer.mutable_transform_param());
}

}  // namespace paceline::caffe
