// The class of a sample.
#pragma once

#include <cstdint>

namespace paceline {

// 0 to classes - 1. ImageNet has 1,000 classes and its whole collection 21,841: a byte would be too small.
using Label = std::uint16_t;
inline constexpr std::int64_t kClassesMax = std::int64_t{1} << 16;

}  // namespace paceline
