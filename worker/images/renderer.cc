#include "worker/images/renderer.h"

#include <algorithm>
#include <cstring>

#include "common/assert.h"
#include "worker/images/orientation.h"
#include "worker/images/png_decoder.h"
#include "worker/images/resample.h"

namespace paceline {
namespace {

using Timer = std::chrono::steady_clock;

// Of the sample's places 0 .. side in one direction, those that lie inside the resized picture.
struct Inside {
  int first = 0;  // of the sample
  int count = 0;
};
Inside inside(int corner, int side, int resized) {
  const int first = std::clamp(-corner, 0, side);
  return {first, std::clamp(resized - corner, first, side) - first};
}

// The largest of 1, 2, 4 and 8 at which the part still has as many pixels as are wanted of it.
int shrink_of(const Placement& placement) {
  int shrink = 1;
  const auto at_least = [&](int part, int resized) { return part >= std::int64_t{2} * shrink * resized; };
  while (shrink < 8 && at_least(placement.part.width, placement.resized.width) &&
         at_least(placement.part.height, placement.resized.height)) {
    shrink *= 2;
  }
  return shrink;
}

// One direction of a placement. With shrink > 1 the part's edges lie between pixels, and what is decoded is a
// pixel more.
struct Direction {
  int first = 0;  // of the decoded pixels, those that Axis counts from
  Axis axis;
};
Direction direction_of(int at, int length, int shrink, int resized, int corner, const Inside& wanted) {
  const int first = corner + wanted.first;
  if (shrink == 1) return {at, Axis::make(length, resized, first, wanted.count)};
  const int low = at / shrink;
  const int high = (at + length + shrink - 1) / shrink;
  const double offset = static_cast<double>(at) / shrink - low;
  return {low,
          Axis::make(offset, static_cast<double>(length) / shrink, high - low, resized, first, wanted.count)};
}

}  // namespace

// Gives all rows of `shown` to `on_rows`, as they are shown.
Status Renderer::decode(std::span<const std::uint8_t> file, const PictureInfo& info, const PictureRect& shown,
                        int shrink, const JpegDecoder::OnRows& on_rows) {
  const PictureRect stored = stored_part(shown, info.orientation, info.stored);
  const DecodeMode mode = decode_ == DecodeKind::kWhole ? DecodeMode::kWhole : DecodeMode::kFused;
  if (info.kind == PictureKind::kPng) {
    PACELINE_RETURN_IF_ERROR(decode_png(file, info, whole_));
    part_.reset(stored.width, stored.height);
    for (int y = 0; y < stored.height; ++y) {
      const std::uint8_t* const from =
          whole_.row(stored.y + y) + static_cast<std::size_t>(stored.x) * Picture::kBytesPerPixel;
      std::memcpy(part_.row(y), from, part_.row_bytes());
    }
  } else if (info.orientation == 1) {
    return jpeg_.decode_in_bands(file, info, stored, mode, shrink, part_, on_rows);
  } else {
    PACELINE_RETURN_IF_ERROR(jpeg_.decode(file, info, stored, mode, shrink, part_));
  }
  if (info.orientation == 1) {
    on_rows(part_.rows());
  } else {
    orient(part_, info.orientation, turned_);
    on_rows(turned_.rows());
  }
  return Status::ok();
}

std::size_t Renderer::bytes() const {
  std::size_t sum = jpeg_.bytes() + resampler_.bytes();
  for (const Picture* picture : {&whole_, &part_, &turned_}) sum += picture->bytes.capacity();
  return sum;
}

void Renderer::release() {
  for (Picture* picture : {&whole_, &part_, &turned_}) *picture = Picture();
  resampler_.release();
  jpeg_.release();
}

Status Renderer::render(std::span<const std::uint8_t> file, const PictureInfo& info,
                        const Placement& placement, int side, const Normalization& normalization,
                        std::span<float> out) {
  const auto plane = static_cast<std::size_t>(side) * static_cast<std::size_t>(side);
  PACELINE_ASSERT(out.size() == 3 * plane, std::to_string(out.size()) + " floats");
  const Inside across = inside(placement.left, side, placement.resized.width);
  const Inside down = inside(placement.top, side, placement.resized.height);
  const bool is_whole = across.count == side && down.count == side;
  if (!is_whole) std::fill(out.begin(), out.end(), 0.0F);
  if (across.count == 0 || down.count == 0) return Status::ok();

  const auto begun = Timer::now();
  // Turned pictures are not shrunk: their edges would have to be mirrored between pixels.
  const bool may_shrink =
      decode_ == DecodeKind::kScaled && info.kind == PictureKind::kJpeg && info.orientation == 1;
  const int shrink = may_shrink ? shrink_of(placement) : 1;
  const PictureRect& part = placement.part;
  const Direction columns =
      direction_of(part.x, part.width, shrink, placement.resized.width, placement.left, across);
  const Direction rows =
      direction_of(part.y, part.height, shrink, placement.resized.height, placement.top, down);
  const PictureRect needed{columns.first + columns.axis.begin, rows.first + rows.axis.begin,
                           columns.axis.end - columns.axis.begin, rows.axis.end - rows.axis.begin};
  const int first = placement.is_flipped ? side - across.first - across.count : across.first;
  float* red = out.data() + static_cast<std::size_t>(down.first) * static_cast<std::size_t>(side) + first;
  const pixels::Loops& loops = pixels::best();
  resampler_.begin(columns.axis, rows.axis, loops);
  auto since = begun;
  const auto spent = [&since](std::chrono::nanoseconds& on) {
    const auto now = Timer::now();
    on += now - since;
    since = now;
  };
  const auto on_rows = [&](const pixels::RowsIn& decoded) {
    spent(times_.decode);
    const Picture& made = resampler_.take(decoded);
    spent(times_.resize);
    for (int y = 0; y < made.height; ++y, red += side) {
      loops.normalize(made.row(y), across.count, normalization.mean.data(), normalization.scale.data(),
                      placement.is_flipped, {red, red + plane, red + 2 * plane});
    }
    spent(times_.normalize);
  };
  PACELINE_RETURN_IF_ERROR(decode(file, info, needed, shrink, on_rows));
  spent(times_.decode);
  return Status::ok();
}

}  // namespace paceline
