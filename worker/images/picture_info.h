// What the head of an encoded picture says: what it is, whatever its name says, how large, and how its camera
// was held. Nothing is decoded, so a picture that would not fit into memory is known before it is tried.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "common/status.h"
#include "worker/images/picture.h"

namespace paceline {

// Of what a JPEG can say, and for PNGs as well: a thin one, resized to crop.resize at its shorter side, then has
// sides of an int.
inline constexpr int kPictureSideMax = 65'535;

enum class PictureKind : std::uint8_t { kJpeg, kPng };

struct PictureInfo {
  PictureKind kind = PictureKind::kJpeg;
  PictureSize stored;            // as it lies in the file; both 1 to kPictureSideMax
  std::uint8_t orientation = 1;  // Exif's, 1 to 8: how it is to be turned before it is shown; 1: not at all
  bool operator==(const PictureInfo&) const = default;

  // As it is shown.
  PictureSize shown() const { return orientation < 5 ? stored : PictureSize{stored.height, stored.width}; }
};

struct PictureHead {
  PictureInfo info;
  std::size_t pixels_at = 0;  // where in the file they begin
};

// Of a JPEG file (ITU T.81) or a PNG file, of which `head` has the beginning or all. Errors: kInvalidArgument
// it is neither; kDataLoss it ends before its first pixel, has a side of 0 or above kPictureSideMax, or its head is
// broken.
Result<PictureHead> read_picture_head(std::span<const std::uint8_t> head);

// Whether the mark that ends a file is in `rest`, which begins after its first pixel: one that was cut off
// has none. In front of the pixels there may be a small picture of a camera, with a mark of its own.
bool has_end_mark(PictureKind kind, std::span<const std::uint8_t> rest);

// What the eXIf chunk of a PNG says that stands after its pixels; nothing: there is none. `rest`: the end of the file,
// which may begin anywhere.
std::optional<std::uint8_t> orientation_behind(std::span<const std::uint8_t> rest);

}  // namespace paceline
