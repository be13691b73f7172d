// The fingerprint of a data set.
#include "worker/data/data_set.h"

namespace paceline {

std::uint64_t fingerprint(const DataSet& set) {
  constexpr std::size_t kEvery = kImageSize / 8;
  std::uint64_t hash = 0xCBF29CE484222325U;
  const auto add = [&hash](std::uint8_t byte) { hash = (hash ^ byte) * 0x100000001B3U; };
  for (std::int64_t sample = 0; sample < set.size(); ++sample) {
    add(set.labels[static_cast<std::size_t>(sample)]);
    const std::span<const std::uint8_t> image = set.image(sample);
    for (std::size_t pixel = 0; pixel < image.size(); pixel += kEvery) add(image[pixel]);
  }
  return hash;
}

}  // namespace paceline
