// A Caffe network (net.prototxt) in one phase, as layers of ours. docs/CAFFE.md has what is read and what is
// refused. Semantics: Caffe's source, src/caffe (net.cpp for rules and blobs, upgrade_proto.cpp for old files,
// layers/*.cpp for what a layer is).
//
// A top that has the name of a bottom is written in place, and a blob that several read is copied; here a layer
// names the layer whose output it reads, so both are nothing but names.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/config/layer_config.h"
#include "common/network/network.h"
#include "common/status.h"

namespace paceline::caffe {

enum class Phase { kTrain, kTest };

// What a net is seen in: layers with include or exclude rules are there or not by it.
struct State {
  Phase phase = Phase::kTrain;
  std::optional<int> level = {};  // none: the net's own, or 0
  std::vector<std::string> stages = {};
};

// A layer that brings data.
struct DataLayer {
  std::string name;
  int line = 0;
  std::int64_t batch_size = 0;  // 0: it does not say
  double scale = 1.0;
  bool mirror = false;
  std::int64_t crop_size = 0;  // 0: none
  std::string mean_file;       // empty: none
  std::vector<double> mean_values;
};

struct Net {
  std::string file;
  std::vector<LayerConfig> layers;  // in order, with those that are losses
  std::vector<int> lines;           // of each of them in `file`
  std::optional<Shape> input;       // of a net that says it
  std::optional<DataLayer> data;
  int losses = 0;                   // whose weight is not 0
  std::vector<std::int64_t> top_k;  // of its Accuracy layers
  std::string cannot_train;         // why, with file, line and layer; empty: it can, where there is a loss
};

// What goes into a network, where its file or the command line says it. Errors: kInvalidArgument a side below 1 or
// above 65,536, or more than 2^28 numbers.
Result<Shape> input_shape(std::int64_t channels, std::int64_t height, std::int64_t width);

// The net of `file` in `state`, which net.state of the file may name otherwise. What is left out of it is
// named in `notes`. Errors, one line with file, line and layer: kNotFound, kInvalidArgument.
Result<Net> read_net(const std::string& file, const State& state, std::vector<std::string>& notes);

}  // namespace paceline::caffe
