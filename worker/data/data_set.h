// A labelled set of 32x32 colour images in memory, as CIFAR-10 has them (Krizhevsky, "Learning multiple
// layers of features from tiny images", 2009, chapter 3). One copy per node, shared by its training threads,
// never changed.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace paceline {

inline constexpr std::int64_t kImageChannels = 3;  // red, green, blue
inline constexpr std::int64_t kImageSide = 32;     // pixels, both ways
inline constexpr std::int64_t kPlaneSize = kImageSide * kImageSide;
inline constexpr std::int64_t kImageSize = kImageChannels * kPlaneSize;  // values of one image
inline constexpr std::int64_t kClasses = 10;

// N samples. `pixels` is uint8, N x 3 x 32 x 32, row-major; labels[i] is the class of sample i, 0 .. 9.
// Thread: immutable once it is shared (DataSetPtr).
struct DataSet {
  std::vector<std::uint8_t> labels;
  std::vector<std::uint8_t> pixels;

  std::int64_t size() const { return static_cast<std::int64_t>(labels.size()); }
  // The 3072 values of `sample`, 0 <= sample < size().
  std::span<const std::uint8_t> image(std::int64_t sample) const {
    return std::span(pixels).subspan(static_cast<std::size_t>(sample * kImageSize), kImageSize);
  }
};

// FNV-1a (64 bit) over each sample's label and eight values of its image, in order: tells sets of different
// size, content or order apart without going through all bytes.
std::uint64_t fingerprint(const DataSet& set);

using DataSetPtr = std::shared_ptr<const DataSet>;

}  // namespace paceline
