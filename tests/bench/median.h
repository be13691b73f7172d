// The median of a benchmark's figures. Of an even number of them the upper of the middle two.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace paceline::bench {

// `values` is not empty.
inline double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace paceline::bench
