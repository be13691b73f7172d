// Between reading a file and layers of ours. Internal to common/caffe.
#pragma once

#include <string>
#include <vector>

#include "common/caffe/net.h"
#include "proto/caffe.pb.h"

namespace paceline::caffe {

using namespace caffe_proto;  // NOLINT: what is generated; our own names come first

// A layer of the file: upgraded to today's form, and where it stands.
struct FileLayer {
  LayerParameter layer;
  int line = 0;
};

// A float as the shortest decimal number that it was read from: 0.1F is 0.1.
double decimal(float value);

// A blob's dimensions as its file says them, today's or the four numbers of before; and its numbers.
std::vector<std::int64_t> dims_of(const BlobProto& blob);
std::vector<float> numbers_of(const BlobProto& blob);

// V1's `layers` and the old data fields as Caffe upgrades them (upgrade_proto.cpp). `where`: "net.prototxt:3".
Result<LayerParameter> upgraded(const V1LayerParameter& old, const std::string& where);
// Data fields that stood in data_param and image_data_param before there was a transform_param.
void upgrade_transform(LayerParameter& layer);

// The layer as one of ours, without `from`. Errors: kInvalidArgument, without file and layer.
Result<LayerConfig> layer_config(const LayerParameter& layer);
// The same of a loss.
Result<LayerConfig> loss_config(const LayerParameter& layer);
// The multipliers of its weight and bias, as factors of ours.
Status read_factors(const LayerParameter& layer, bool has_bias, LayerConfig& to);
// A Slice: a layer for each of its tops, named "<layer>/<top>".
std::vector<LayerConfig> slices(const LayerParameter& layer);

// kData: the layer that brings data and nothing else, so that no other layer can be a fault.
enum class Want { kLayers, kData };

// The net as it is in a state; `file` is where it stands.
Result<Net> net_of(const NetParameter& net, const std::vector<FileLayer>& layers, const std::string& file,
                   State state, Want want, std::vector<std::string>& notes);
// The same of a file: read_net() with a choice.
Result<Net> read_net_for(const std::string& file, const State& state, Want want,
                         std::vector<std::string>& notes);

// Its layers, upgraded. `line_of(i)`: of the i-th of `layer` or `layers`.
template <typename LineOf>
Result<std::vector<FileLayer>> file_layers(const NetParameter& net, const std::string& file, LineOf line_of) {
  std::vector<FileLayer> layers;
  if (net.layer_size() > 0 && net.layers_size() > 0) {
    return invalid_argument(file + ": `layer` and `layers` in one net, expected one of the two");
  }
  for (int i = 0; i < net.layer_size(); ++i) layers.push_back({net.layer(i), line_of("layer", i)});
  for (int i = 0; i < net.layers_size(); ++i) {
    const int line = line_of("layers", i);
    PACELINE_ASSIGN_OR_RETURN(LayerParameter layer,
                              upgraded(net.layers(i), file + ":" + std::to_string(line)));
    layers.push_back({std::move(layer), line});
  }
  for (FileLayer& layer : layers) upgrade_transform(layer.layer);
  return layers;
}

}  // namespace paceline::caffe
