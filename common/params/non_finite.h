// What is not finite of what a worker computed, in words: the same wherever it is found.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "common/metric.h"
#include "common/params/layout.h"

namespace paceline {

// A gradient's element `index` of the layout, which is NaN or infinite: "gradient of conv1.weight is nan at
// [3, 0, 2]".
std::string describe_non_finite(float value, std::int64_t index, const Layout& layout);

// What is NaN or infinite, the loss or a gradient's tensor, as it is reported; empty when everything is
// finite. `at`: the gradient's first element that is not finite; nullopt when there is none.
std::string describe_non_finite(const Metric& metric, std::span<const float> gradient,
                                std::optional<std::int64_t> at, const Layout& layout);

}  // namespace paceline
