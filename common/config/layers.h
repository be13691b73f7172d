// A list of layers by itself, as train.layers has one: of a network that no run's configuration describes.
#pragma once

#include <string>
#include <vector>

#include "common/config/layer_config.h"
#include "common/status.h"

namespace paceline {

// Reads `text`, a list in YAML's flow style or in JSON: "[{kind: dense, out: 32}, {kind: relu}]". Whether the layers
// fit each other is build_network()'s to say. Errors: kInvalidArgument, as those of load_config(), at `source`. Thread:
// any.
Result<std::vector<LayerConfig>> parse_layers(const std::string& text, const std::string& source);

}  // namespace paceline
