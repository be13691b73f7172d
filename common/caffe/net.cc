#include "common/caffe/net.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "common/caffe/net_of.h"
#include "common/caffe/text.h"
#include "common/network/layer_rule.h"

namespace paceline::caffe {
namespace {

constexpr const char* kImage = "input";  // what a layer's `from` calls the image

std::string shown(Phase phase) { return phase == Phase::kTrain ? "TRAIN" : "TEST"; }

// net.cpp, StateMeetsRule().
bool meets(const State& state, const NetStateRule& rule) {
  const auto has = [&](const std::string& stage) {
    return std::find(state.stages.begin(), state.stages.end(), stage) != state.stages.end();
  };
  if (rule.has_phase() && (rule.phase() == caffe_proto::TRAIN) != (state.phase == Phase::kTrain)) {
    return false;
  }
  const int level = state.level.value_or(0);
  if (rule.has_min_level() && level < rule.min_level()) return false;
  if (rule.has_max_level() && level > rule.max_level()) return false;
  return std::all_of(rule.stage().begin(), rule.stage().end(), has) &&
         std::none_of(rule.not_stage().begin(), rule.not_stage().end(), has);
}

bool is_included(const State& state, const LayerParameter& layer) {
  const auto meets_any = [&](const auto& rules) {
    return std::any_of(rules.begin(), rules.end(), [&](const auto& rule) { return meets(state, rule); });
  };
  if (layer.include_size() > 0) return meets_any(layer.include());
  return !meets_any(layer.exclude());
}

bool brings_data(const std::string& type) {
  return type == "Data" || type == "ImageData" || type == "Input" || type == "MemoryData" ||
         type == "DummyData";
}

// Samples x channels x height x width; nothing of another rank, as labels have.
template <typename Dims>
Result<std::optional<Shape>> shape_of(const Dims& dims) {
  if (dims.size() != 4) return std::optional<Shape>();
  PACELINE_ASSIGN_OR_RETURN(const Shape shape, input_shape(dims.Get(1), dims.Get(2), dims.Get(3)));
  return std::optional<Shape>(shape);
}

// Multipliers, and what weight and bias begin with.
void take_parameters_of(const LayerConfig& from, LayerConfig& to) {
  to.lr_factor = from.lr_factor;
  to.decay_factor = from.decay_factor;
  to.bias_lr_factor = from.bias_lr_factor;
  to.bias_decay_factor = from.bias_decay_factor;
  to.weight_init = from.weight_init;
  to.bias_init = from.bias_init;
}

// Goes through the layers in order and knows who makes which blob.
class Walk {
 public:
  Walk(Net& net, State state, Want want, std::vector<std::string>& notes)
      : net_(net), state_(std::move(state)), want_(want), notes_(notes) {}

  Status take_inputs(const NetParameter& from) {
    for (int i = 0; i < from.input_size(); ++i) {
      blobs_[from.input(i)] = {i == 0 ? Blob::kData : Blob::kLabel, kImage};
    }
    if (from.input_shape_size() > 0) {
      PACELINE_ASSIGN_OR_RETURN(net_.input, shape_of(from.input_shape(0).dim()));
    }
    if (from.input_dim_size() >= 4) {
      PACELINE_ASSIGN_OR_RETURN(net_.input,
                                input_shape(from.input_dim(1), from.input_dim(2), from.input_dim(3)));
    }
    return Status::ok();
  }

  Status take(const FileLayer& from) {
    const LayerParameter& layer = from.layer;
    if (layer.include_size() > 0 && layer.exclude_size() > 0) {
      return invalid_argument("include and exclude, expected one of the two");
    }
    if (!is_included(state_, layer)) return Status::ok();
    if (brings_data(layer.type())) return take_data(layer, from.line);
    if (layer.type() == "Accuracy") net_.top_k.push_back(layer.accuracy_param().top_k());
    if (want_ == Want::kData) return Status::ok();
    for (const std::string& bottom : layer.bottom()) {
      if (!blobs_.contains(bottom)) {
        return invalid_argument("bottom " + bottom +
                                ", expected a blob that a layer before it makes in phase " +
                                shown(state_.phase));
      }
    }
    if (layer.type().ends_with("Loss")) return take_loss(layer, from.line);
    if (layer.type() == "Accuracy" || layer.type() == "Silence") return Status::ok();
    if (layer.type() == "Softmax" || layer.type() == "Split") return take_copy(layer);
    if (layer.type() == "Slice") return take_slice(layer, from.line);
    return take_layer(layer, from.line);
  }

  // After the last: the losses, and who makes what they read.
  const std::set<std::string>& needed() const { return needed_; }

 private:
  struct Owner {
    LayerParameter layer;
    LayerConfig config;
  };
  struct Blob {
    enum Kind { kData, kLabel, kOutput, kProbabilities } kind;
    std::string maker;  // `from` of a layer that reads it
  };

  Status take_data(const LayerParameter& layer, int line) {
    if (layer.top_size() == 0) return invalid_argument("no top, expected one");
    if (net_.data) return invalid_argument("a second layer of data, the first is " + net_.data->name);
    for (int i = 0; i < layer.top_size(); ++i) {
      blobs_[layer.top(i)] = {i == 0 ? Blob::kData : Blob::kLabel, kImage};
    }
    DataLayer data;
    data.name = layer.name();
    data.line = line;
    data.batch_size = layer.has_data_param()         ? layer.data_param().batch_size()
                      : layer.has_image_data_param() ? layer.image_data_param().batch_size()
                                                     : 0;
    const TransformationParameter& transform = layer.transform_param();
    data.scale = decimal(transform.scale());
    data.mirror = transform.mirror();
    data.crop_size = transform.crop_size();
    data.mean_file = transform.mean_file();
    for (const float value : transform.mean_value()) data.mean_values.push_back(decimal(value));
    if (!data.mean_file.empty() && !data.mean_values.empty()) {
      return invalid_argument("mean_file and mean_value, expected one of the two");
    }
    if (layer.input_param().shape_size() > 0) {
      PACELINE_ASSIGN_OR_RETURN(net_.input, shape_of(layer.input_param().shape(0).dim()));
    }
    net_.data = std::move(data);
    return Status::ok();
  }

  // A layer of ours that gives the loss of each sample; one that there is not is kept in mind, as a net that cannot be
  // trained can still be looked at.
  Status take_loss(const LayerParameter& layer, int line) {
    if (layer.bottom_size() < 1) return invalid_argument("no bottom, expected scores and labels");
    const bool without_weight = layer.loss_weight_size() > 0 && layer.loss_weight(0) == 0.0F;
    if (without_weight) {
      notes_.push_back(at_line(net_.file, line) + ": layer " + layer.name() +
                       " is left out: its loss_weight is 0");
    } else {
      ++net_.losses;
      const Status taken = add_loss(layer, line);
      if (!taken.is_ok() && net_.cannot_train.empty()) {
        net_.cannot_train = at_line(net_.file, line) + ": layer " + layer.name() + ": " + taken.message();
      }
      for (const std::string& bottom : layer.bottom()) {
        const Blob& blob = blobs_.at(bottom);
        if (blob.kind == Blob::kOutput) needed_.insert(blob.maker);
      }
    }
    for (const std::string& top : layer.top()) blobs_[top] = {Blob::kProbabilities, ""};
    return Status::ok();
  }

  // Its values, and at the end the labels: Euclidean and sigmoid losses may have a second value instead.
  Status add_loss(const LayerParameter& layer, int line) {
    PACELINE_ASSIGN_OR_RETURN(LayerConfig config, loss_config(layer));
    const LayerRule& rule = layer_rule(config.kind);
    const int values = rule.inputs_min;
    const bool compares = rule.inputs_max > values;  // with the labels, or with another value
    if (layer.bottom_size() != values + 1) {
      return invalid_argument(std::to_string(layer.bottom_size()) + " bottoms, expected " +
                              (values == 2 ? "two vectors and labels" : "scores and labels"));
    }
    for (int i = 0; i < layer.bottom_size(); ++i) {
      const std::string& bottom = layer.bottom(i);
      const Blob& blob = blobs_.at(bottom);
      const bool is_value = blob.kind == Blob::kOutput || blob.kind == Blob::kData;
      if (i < values && blob.kind != Blob::kOutput) {
        return invalid_argument("bottom " + bottom + ", expected what a layer with weights gives");
      }
      if (i == values && blob.kind != Blob::kLabel && !(compares && is_value)) {
        return invalid_argument("bottom " + bottom + ", expected the labels of the data");
      }
      if (is_value) config.from.push_back(blob.maker);
    }
    const std::string name = config.name;
    PACELINE_RETURN_IF_ERROR(append(std::move(config), line));
    needed_.insert(name);
    return Status::ok();
  }

  // A Split's tops are its bottom. So is a Softmax's to the accuracy and to nobody else.
  Status take_copy(const LayerParameter& layer) {
    if (layer.bottom_size() != 1) return invalid_argument("expected one bottom");
    Blob blob = blobs_.at(layer.bottom(0));
    if (layer.type() == "Softmax") blob.kind = Blob::kProbabilities;
    for (const std::string& top : layer.top()) blobs_[top] = blob;
    return Status::ok();
  }

  // What a layer that computes reads, by its maker.
  Result<std::vector<std::string>> makers_of(const LayerParameter& layer) const {
    if (layer.bottom_size() == 0) return invalid_argument("no bottom, expected one");
    std::vector<std::string> makers;
    for (const std::string& bottom : layer.bottom()) {
      const Blob& blob = blobs_.at(bottom);
      if (blob.kind == Blob::kLabel) {
        return invalid_argument("bottom " + bottom + " are labels, expected values");
      }
      if (blob.kind == Blob::kProbabilities) {
        return invalid_argument("bottom " + bottom + " is after a softmax or a loss, expected values");
      }
      makers.push_back(blob.maker);
    }
    return makers;
  }

  Status append(LayerConfig config, int line) {
    if (!names_.insert(config.name).second || config.name.empty()) {
      return invalid_argument("the name \"" + config.name +
                              "\", expected one that no other layer has in phase " + shown(state_.phase));
    }
    if (config.name == kImage) return invalid_argument("the name input is the image's, expected another");
    net_.layers.push_back(std::move(config));
    net_.lines.push_back(line);
    return Status::ok();
  }

  Status take_slice(const LayerParameter& layer, int line) {
    const SliceParameter& param = layer.slice_param();
    const std::int64_t axis = param.has_slice_dim() ? param.slice_dim() : param.axis();
    if (axis != 1) return invalid_argument("axis " + std::to_string(axis) + ", expected 1: channels");
    PACELINE_ASSIGN_OR_RETURN(const std::vector<std::string> makers, makers_of(layer));
    if (makers.size() != 1) return invalid_argument(std::to_string(makers.size()) + " bottoms, expected one");
    const std::vector<LayerConfig> parts = slices(layer);
    for (std::size_t i = 0; i < parts.size(); ++i) {
      LayerConfig part = parts[i];
      part.from = makers;
      blobs_[layer.top(static_cast<int>(i))] = {Blob::kOutput, part.name};
      PACELINE_RETURN_IF_ERROR(append(std::move(part), line));
    }
    return Status::ok();
  }

  Status take_layer(const LayerParameter& layer, int line) {
    PACELINE_ASSIGN_OR_RETURN(LayerConfig config, layer_config(layer));
    if (layer.top_size() != 1) {
      return invalid_argument(std::to_string(layer.top_size()) + " tops, expected one");
    }
    PACELINE_ASSIGN_OR_RETURN(config.from, makers_of(layer));
    PACELINE_RETURN_IF_ERROR(share_blobs(layer, config));
    if (layer.batch_norm_param().use_global_stats() && net_.cannot_train.empty()) {
      net_.cannot_train = at_line(net_.file, line) + ": layer " + layer.name() +
                          ": use_global_stats: true, expected statistics of the mini-batch";
    }
    // In place or not: who reads the blob from here on reads this layer.
    blobs_[layer.top(0)] = {Blob::kOutput, config.name};
    return append(std::move(config), line);
  }

  // A param with the name of another layer's is that one: the layer has that layer's weight and bias then.
  Status share_blobs(const LayerParameter& layer, LayerConfig& config) {
    Owner* owner = nullptr;
    int shared = 0;
    for (int i = 0; i < layer.param_size(); ++i) {
      const std::string& name = layer.param(i).name();
      if (name.empty()) continue;
      const auto [at, is_new] = params_.emplace(name, Param{config.name, i});
      if (is_new) continue;
      const Param& other = at->second;
      if (other.index != i || (owner != nullptr && other.layer != owner->config.name) ||
          other.layer == config.name) {
        return invalid_argument("param " + name + " of layer " + other.layer +
                                ", expected weight and bias of one other layer, in this order");
      }
      owner = &owners_.at(other.layer);
      ++shared;
    }
    owners_.emplace(config.name, Owner{layer, config});
    if (owner == nullptr) return Status::ok();
    const LayerConfig& other = owner->config;
    if (shared != (config.bias ? 2 : 1) || other.kind != config.kind || other.bias != config.bias) {
      return invalid_argument("a part of what layer " + other.name +
                              " has, expected all of it: its weight, and its bias where there is one");
    }
    PACELINE_RETURN_IF_ERROR(agree(layer, *owner));
    const LayerConfig none;
    config.weights_of = other.name;
    take_parameters_of(none, config);
    return Status::ok();
  }

  // Multipliers are those of whoever says them (net.cpp, AppendParam): the owner, or a layer that shares what it has.
  Status agree(const LayerParameter& layer, Owner& owner) {
    for (int i = 0; i < std::min(layer.param_size(), owner.layer.param_size()); ++i) {
      const ParamSpec& declared = layer.param(i);
      ParamSpec& kept = *owner.layer.mutable_param(i);
      if ((declared.has_lr_mult() && kept.has_lr_mult() && declared.lr_mult() != kept.lr_mult()) ||
          (declared.has_decay_mult() && kept.has_decay_mult() &&
           declared.decay_mult() != kept.decay_mult())) {
        return invalid_argument("lr_mult or decay_mult other than those of layer " + owner.config.name +
                                ", whose param it shares, expected the same");
      }
      kept.MergeFrom(declared);
    }
    const auto at = std::find_if(net_.layers.begin(), net_.layers.end(),
                                 [&](const LayerConfig& one) { return one.name == owner.config.name; });
    return read_factors(owner.layer, at->bias, *at);
  }

  Net& net_;
  const State state_;
  const Want want_;
  std::map<std::string, Blob> blobs_;
  std::set<std::string> names_;
  struct Param {
    std::string layer;
    int index;  // 0: the weight, 1: the bias
  };
  std::map<std::string, Param> params_;  // by name
  std::map<std::string, Owner> owners_;  // by layer; with the multipliers of those that share what it has
  std::set<std::string> needed_;
  std::vector<std::string>& notes_;
};

// Of a layer that is left out the first that shares what it has is the owner.
void pass_parameters_on(const LayerConfig& gone, const std::vector<bool>& kept,
                        std::vector<LayerConfig>& layers) {
  const LayerConfig* owner = nullptr;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    LayerConfig& layer = layers[i];
    if (!kept[i] || layer.weights_of != gone.name) continue;
    layer.weights_of = owner == nullptr ? "" : owner->name;
    if (owner != nullptr) continue;
    take_parameters_of(gone, layer);
    owner = &layer;
  }
}

// Leaves out what no loss depends on, where `needed` are these and those that they read.
void keep_needed(Net& net, std::set<std::string> needed, std::vector<std::string>& notes) {
  std::vector<bool> kept(net.layers.size());
  for (std::size_t i = net.layers.size(); i-- > 0;) {
    kept[i] = needed.contains(net.layers[i].name);
    if (kept[i]) needed.insert(net.layers[i].from.begin(), net.layers[i].from.end());
  }
  for (std::size_t i = 0; i < kept.size(); ++i) {
    if (!kept[i]) pass_parameters_on(net.layers[i], kept, net.layers);
  }
  const std::vector<LayerConfig> layers = std::exchange(net.layers, {});
  const std::vector<int> lines = std::exchange(net.lines, {});
  for (std::size_t i = 0; i < kept.size(); ++i) {
    if (kept[i]) {
      net.layers.push_back(layers[i]);
      net.lines.push_back(lines[i]);
    } else {
      notes.push_back(at_line(net.file, lines[i]) + ": layer " + layers[i].name +
                      " is left out: no loss depends on it");
    }
  }
}

}  // namespace

Result<Shape> input_shape(std::int64_t channels, std::int64_t height, std::int64_t width) {
  constexpr std::int64_t kSideMax = 65'536;
  constexpr std::int64_t kFloatsMax = std::int64_t{1} << 28;
  const auto fits = [](std::int64_t side) { return side >= 1 && side <= kSideMax; };
  if (fits(channels) && fits(height) && fits(width) && channels * height * width <= kFloatsMax) {
    return Shape{channels, height, width};
  }
  return invalid_argument("an input of " + std::to_string(channels) + " x " + std::to_string(height) + " x " +
                          std::to_string(width) + ", expected sides of 1 to 65536 and at most 2^28 numbers");
}

Result<Net> net_of(const NetParameter& from, const std::vector<FileLayer>& layers, const std::string& file,
                   State state, Want want, std::vector<std::string>& notes) {
  Net net;
  net.file = file;
  if (from.has_state()) {
    if (!state.level) state.level = from.state().level();
    state.stages.insert(state.stages.end(), from.state().stage().begin(), from.state().stage().end());
  }
  Walk walk(net, std::move(state), want, notes);
  PACELINE_RETURN_IF_ERROR(walk.take_inputs(from).with_context(file));
  for (const FileLayer& layer : layers) {
    PACELINE_RETURN_IF_ERROR(
        walk.take(layer).with_context(at_line(file, layer.line) + ": layer " + layer.layer.name()));
  }
  if (want == Want::kData) return net;
  if (net.layers.empty()) return invalid_argument(file + ": no layer that computes anything, expected a net");
  if (!walk.needed().empty()) keep_needed(net, walk.needed(), notes);
  return net;
}

Result<Net> read_net(const std::string& file, const State& state, std::vector<std::string>& notes) {
  return read_net_for(file, state, Want::kLayers, notes);
}

Result<Net> read_net_for(const std::string& file, const State& state, Want want,
                         std::vector<std::string>& notes) {
  NetParameter net;
  Lines lines;
  PACELINE_RETURN_IF_ERROR(read_text(file, net, lines, notes));
  PACELINE_ASSIGN_OR_RETURN(const std::vector<FileLayer> layers,
                            file_layers(net, file, [&](const char* field, int i) {
                              return line_of<NetParameter>(lines, field, i);
                            }));
  return net_of(net, layers, file, state, want, notes);
}

}  // namespace paceline::caffe
