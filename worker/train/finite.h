// The worker's own look at what it computed, before anybody else sees it.
#pragma once

#include <span>
#include <string>

#include "common/metric.h"
#include "common/params/layout.h"

namespace paceline {

// What is NaN or infinite, the loss or a gradient's tensor, as it is reported: "gradient of conv1.weight is
// nan at [3, 0, 2]"; empty when everything is finite.
std::string describe_non_finite(const Metric& metric, std::span<const float> gradient, const Layout& layout);

}  // namespace paceline
