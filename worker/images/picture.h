// A decoded picture, and where something lies in one. Four bytes a pixel, so that a pixel is one load and a
// row of pixels is one of SIMD lanes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "worker/images/pixel_loops.h"

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
// keeps its memory. Its rows may lie among wider ones, so that a decoder's need not be copied.
struct Picture {
  static constexpr std::size_t kBytesPerPixel = 4;

  int width = 0;
  int height = 0;
  std::size_t stride = 0;  // bytes from one row to the next
  std::size_t before = 0;  // bytes of a wider row in front of its part
  std::vector<std::uint8_t> bytes;

  std::size_t row_bytes() const { return static_cast<std::size_t>(width) * kBytesPerPixel; }
  void reset(int new_width, int new_height) { reset(new_width, new_height, new_width, 0); }
  // The pixels [left, left + new_width) of rows of `row_width`.
  void reset(int new_width, int new_height, int row_width, int left) {
    width = new_width;
    height = new_height;
    stride = static_cast<std::size_t>(row_width) * kBytesPerPixel;
    before = static_cast<std::size_t>(left) * kBytesPerPixel;
    bytes.resize(stride * static_cast<std::size_t>(height) + pixels::kReadBeyond);
  }
  std::uint8_t* row(int y) { return bytes.data() + before + static_cast<std::size_t>(y) * stride; }
  const std::uint8_t* row(int y) const {
    return bytes.data() + before + static_cast<std::size_t>(y) * stride;
  }
  pixels::RowsIn rows() const { return {row(0), stride, height}; }
  // The beginning of the wider row.
  std::uint8_t* whole_row(int y) { return bytes.data() + static_cast<std::size_t>(y) * stride; }
};

}  // namespace paceline
