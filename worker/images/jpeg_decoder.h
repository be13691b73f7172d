// Decodes a part of a JPEG without the rest ("Image classification at supercomputer scale", section 4: decode
// and crop in one), with libjpeg-turbo. The part's pixels are those of decoding the whole and cutting, to the
// bit: libjpeg-turbo takes the edge of what it decodes for the edge of the picture, where it fills in colours
// from the neighbours, so a few more columns are decoded and dropped.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "common/status.h"
#include "worker/images/picture.h"
#include "worker/images/picture_info.h"

namespace paceline {

// kWhole: everything is decoded, then cut; for measuring what the other saves.
enum class DecodeMode { kFused, kWhole };

// Keeps libjpeg's memory from picture to picture, which for small ones is most of the work. Thread: one.
class JpegDecoder {
 public:
  JpegDecoder();
  ~JpegDecoder();
  JpegDecoder(const JpegDecoder&) = delete;
  JpegDecoder& operator=(const JpegDecoder&) = delete;

  // Writes the pixels of `part` into `picture`, as they are stored (not turned): grey and CMYK become RGB
  // (CMYK inverted, as Adobe writes it and Pillow reads it). `info`: what read_picture_head() said. `shrink`:
  // 1, 2, 4 or 8; decodes at 1/shrink, where the picture has ceil(side / shrink) pixels a side, in which
  // `part` lies; at least one pixel, inside.
  // Errors: kDataLoss the pixels are broken, with the library's words, or it has another size than `info`, more
  // than kScansMax scans, or would need more than 16 bytes a pixel at once.
  static constexpr int kScansMax = 100;  // of a progressive one; each goes over all pixels, and usual are 10
  Status decode(std::span<const std::uint8_t> file, const PictureInfo& info, const PictureRect& part,
                DecodeMode mode, int shrink, Picture& picture) {
    return decode(file, info, part, mode, shrink, picture, part.height, nullptr);
  }

  // As decode(), a few rows after another: `band` holds no more than those, and `on_rows` is called with them, top
  // down. Where it fails it may have been called for rows that were right.
  using OnRows = std::function<void(const pixels::RowsIn& rows)>;
  Status decode_in_bands(std::span<const std::uint8_t> file, const PictureInfo& info, const PictureRect& part,
                         DecodeMode mode, int shrink, Picture& band, const OnRows& on_rows) {
    return decode(file, info, part, mode, shrink, band, kBandRows, on_rows);
  }

  // Of memory that is kept, but for libjpeg's few kilobytes; and giving that back.
  std::size_t bytes() const;
  void release();

 private:
  static constexpr int kBandRows = 8;  // 16 KB of a picture of 500 columns
  Status decode(std::span<const std::uint8_t> file, const PictureInfo& info, const PictureRect& part,
                DecodeMode mode, int shrink, Picture& picture, int rows_at_a_time, const OnRows& on_rows);

  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace paceline
