#include "worker/images/orientation.h"

#include <algorithm>
#include <cstring>

#include "common/assert.h"

namespace paceline {
namespace {

struct Place {
  int x = 0;
  int y = 0;
};

// Where the shown pixel (x, y) is stored.
Place stored_place(int x, int y, std::uint8_t orientation, const PictureSize& stored) {
  const int right = stored.width - 1;
  const int bottom = stored.height - 1;
  switch (orientation) {
    case 2:
      return {right - x, y};
    case 3:
      return {right - x, bottom - y};
    case 4:
      return {x, bottom - y};
    case 5:
      return {y, x};
    case 6:
      return {y, bottom - x};
    case 7:
      return {right - y, bottom - x};
    case 8:
      return {right - y, x};
    default:
      PACELINE_ASSERT(orientation == 1, std::to_string(orientation));
      return {x, y};
  }
}

}  // namespace

PictureRect stored_part(const PictureRect& shown, std::uint8_t orientation, const PictureSize& stored) {
  const Place one = stored_place(shown.x, shown.y, orientation, stored);
  const Place other =
      stored_place(shown.x + shown.width - 1, shown.y + shown.height - 1, orientation, stored);
  const int x = std::min(one.x, other.x);
  const int y = std::min(one.y, other.y);
  return {x, y, std::max(one.x, other.x) - x + 1, std::max(one.y, other.y) - y + 1};
}

void orient(const Picture& stored, std::uint8_t orientation, Picture& shown) {
  const bool turned = orientation >= 5;
  shown.reset(turned ? stored.height : stored.width, turned ? stored.width : stored.height);
  const PictureSize size{stored.width, stored.height};
  for (int y = 0; y < shown.height; ++y) {
    std::uint8_t* out = shown.row(y);
    for (int x = 0; x < shown.width; ++x, out += Picture::kBytesPerPixel) {
      const Place from = stored_place(x, y, orientation, size);
      std::memcpy(out, stored.row(from.y) + static_cast<std::size_t>(from.x) * Picture::kBytesPerPixel,
                  Picture::kBytesPerPixel);
    }
  }
}

}  // namespace paceline
