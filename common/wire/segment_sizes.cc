// Counted in doubles: a threshold may be a million.
#include "common/wire/segment_sizes.h"

#include <algorithm>

#include "common/wire/memory.h"
#include "common/wire/messages.h"

namespace paceline::wire {
namespace {

// Where the system does not say what the machine has.
constexpr double kOtherwise = 64e9;

std::int64_t at_most_half(double bytes) {
  const auto half = static_cast<double>(half_of_memory());
  return static_cast<std::int64_t>(std::clamp(bytes, 1.0, half > 0 ? half : kOtherwise));
}

}  // namespace

std::int64_t gradient_segment_bytes(std::int64_t floats, std::uint32_t threads, std::size_t gradients) {
  constexpr double kPages = 2 * 4096;  // each may be asked for in whole pages, and begin with one
  return at_most_half(static_cast<double>(gradients) * threads *
                      (static_cast<double>(floats) * sizeof(float) + kPages));
}

std::int64_t parameter_segment_bytes(std::int64_t floats) {
  // A block begins at a cache line and has more than 1,024 bytes, or it is not lent; the last is partly used.
  constexpr double kLines = 1.0 + 64.0 / 1024.0;
  return at_most_half(static_cast<double>(kSharedStates) *
                      (static_cast<double>(floats) * sizeof(float) * kLines + kPayloadBytesMax));
}

}  // namespace paceline::wire
