// A decoded picture, and where something lies in one. Four bytes a pixel, so that a pixel is one load and a
// row of pixels is one of SIMD lanes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace paceline {

struct PictureSize {
  int width = 0;  // pixels
  int height = 0;
  bool operator==(const PictureSize&) const = default;
};

struct PictureRect {
  int x = 0;
  int y = 0;
  int width = 0;
  int height = 0;
  bool operator==(const PictureRect&) const = default;
};

// Row-major pixels of four bytes: red, green, blue and one that means nothing. A picture that is filled again
// keeps its memory.
struct Picture {
  static constexpr std::size_t kBytesPerPixel = 4;
  static constexpr std::size_t kReadBeyond = 16;  // bytes behind the last row that may be read, not used

  int width = 0;
  int height = 0;
  std::vector<std::uint8_t> bytes;

  std::size_t row_bytes() const { return static_cast<std::size_t>(width) * kBytesPerPixel; }
  void reset(int new_width, int new_height) {
    width = new_width;
    height = new_height;
    bytes.resize(row_bytes() * static_cast<std::size_t>(height) + kReadBeyond);
  }
  std::uint8_t* row(int y) { return bytes.data() + static_cast<std::size_t>(y) * row_bytes(); }
  const std::uint8_t* row(int y) const { return bytes.data() + static_cast<std::size_t>(y) * row_bytes(); }
};

}  // namespace paceline
