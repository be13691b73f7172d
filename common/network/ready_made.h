// The networks that have a name: what `train.model` may be besides `layers`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/config/run_config.h"

namespace paceline {

// Their layers; nothing for a name that is none of theirs. `dropout`: the rate in front of the last dense
// layer, 0: none.
std::optional<std::vector<LayerConfig>> ready_made_network(const std::string& name, std::int64_t classes,
                                                           double dropout);

}  // namespace paceline
