// From an encoded picture to what the network sees: decode the part that is shown, turn it as Exif says,
// resize, mirror, normalise, colour by colour.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <span>

#include "common/config/run_config.h"
#include "common/status.h"
#include "worker/data/augmentation.h"
#include "worker/images/jpeg_decoder.h"
#include "worker/images/picture.h"
#include "worker/images/picture_info.h"
#include "worker/images/placement.h"
#include "worker/images/resample.h"

namespace paceline {

// Where the time of render() goes, for `paceline data bench`; added up.
struct RenderTimes {
  std::chrono::nanoseconds decode{0};
  std::chrono::nanoseconds resize{0};  // with turning
  std::chrono::nanoseconds normalize{0};
};

// Keeps its memory from picture to picture. Thread: one.
class Renderer {
 public:
  explicit Renderer(DecodeKind decode) : decode_(decode) {}

  // Writes the sample of `side` x `side` pixels that `placement` makes of `file` into `out`, 3 x side x side
  // floats: all red ones first, row by row. `info`: what read_picture_head() says of the file.
  // Errors: kDataLoss as the decoders.
  Status render(std::span<const std::uint8_t> file, const PictureInfo& info, const Placement& placement,
                int side, const Normalization& normalization, std::span<float> out);

  // Of memory that it keeps, and giving that back: one large picture must not hold it to the end of a run.
  std::size_t bytes() const;
  void release();

  const RenderTimes& times() const { return times_; }

 private:
  Status decode(std::span<const std::uint8_t> file, const PictureInfo& info, const PictureRect& shown,
                int shrink, const JpegDecoder::OnRows& on_rows);

  DecodeKind decode_;
  JpegDecoder jpeg_;
  Picture whole_;  // a PNG is decoded whole
  Picture part_;   // or a few rows of it
  Picture turned_;
  Resampler resampler_;
  RenderTimes times_;
};

}  // namespace paceline
