#include "worker/model/norm_group.h"

#include "common/assert.h"

namespace paceline {

NormStatistics combined(std::span<const NormPart> parts, std::int64_t places) {
  const std::size_t channels = parts.front().first.size();
  NormStatistics all{0, std::vector<double>(channels), std::vector<double>(channels)};
  std::vector<double>& squares = all.variance;  // about the mean, until the end
  for (const NormPart& part : parts) {
    PACELINE_ASSERT(part.first.size() == channels && part.second.size() == channels && part.samples > 0,
                    "a part of another layer");
    const auto before = static_cast<double>(all.values);
    const auto more = static_cast<double>(part.samples * places);
    all.values += part.samples * places;
    for (std::size_t c = 0; c < channels; ++c) {
      const double apart = part.first[c] - all.mean[c];
      all.mean[c] += apart * more / (before + more);
      squares[c] += part.second[c] + apart * apart * before * more / (before + more);
    }
  }
  for (double& of_channel : squares) of_channel /= static_cast<double>(all.values);
  return all;
}

NormCorrection correction_of(std::span<const NormPart> parts, std::int64_t samples, std::int64_t places) {
  const std::size_t channels = parts.front().first.size();
  NormCorrection sums{std::vector<double>(channels), std::vector<double>(channels)};
  std::int64_t all = 0;
  for (const NormPart& part : parts) {
    PACELINE_ASSERT(part.first.size() == channels && part.second.size() == channels,
                    "a part of another layer");
    all += part.samples;
    for (std::size_t c = 0; c < channels; ++c) {
      sums.first[c] += static_cast<double>(part.samples) * part.first[c];
      sums.second[c] += static_cast<double>(part.samples) * part.second[c];
    }
  }
  const double divisor = static_cast<double>(samples) * static_cast<double>(all * places);
  for (std::vector<double>* of : {&sums.first, &sums.second}) {
    for (double& value : *of) value /= divisor;
  }
  return sums;
}

}  // namespace paceline
