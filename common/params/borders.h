// Where a vector may be cut so that no tensor is: an optimizer that sums over whole tensors (trust_ratio.h) then has
// each in one place.
#pragma once

#include <algorithm>
#include <compare>
#include <cstdint>
#include <vector>

#include "common/config/optimizer_section.h"
#include "common/params/layout.h"
#include "common/params/partition.h"

namespace paceline {

struct Borders {
  std::vector<std::int64_t> at;  // ascending, both ends of the vector with them; empty: each element is one
  double share = 0.5;            // cut_at()'s
  auto operator<=>(const Borders&) const = default;
};

// Of the tensors of `range`, whose ends are such, counted from its begin. None under an optimizer that steps each
// element by itself.
inline Borders borders_of(const Layout& layout, Range range, const OptimizerSection& optimizer) {
  if (!measures_tensors(optimizer.kind)) return {};
  Borders borders{{0}};
  for (const Tensor& tensor : layout.tensors()) {
    const std::int64_t end = tensor.offset + tensor.size();
    if (end > range.begin && end <= range.end) borders.at.push_back(end - range.begin);
  }
  return borders;
}

// Where a cut at `place` of the vector is made; there are borders. Between two of them at the upper one where it is
// further than `share` of the way from the lower: half is the nearest. Rises with `place`.
inline std::int64_t cut_at(const std::vector<std::int64_t>& borders, std::int64_t place, double share) {
  const auto upper = std::lower_bound(borders.begin(), borders.end(), place);
  if (upper == borders.begin() || *upper == place) return *upper;
  const std::int64_t lower = *(upper - 1);
  const auto way = static_cast<double>(*upper - lower);
  return static_cast<double>(place - lower) > share * way ? *upper : lower;
}

}  // namespace paceline
