#include "worker/images/placement.h"

#include <algorithm>
#include <cmath>

namespace paceline {
namespace {

// The whole picture, its shorter side resized to crop.resize; the longer one rounded down, as torchvision
// does.
Placement resized_whole(const PictureSize& picture, const CropSection& crop) {
  const std::int64_t shorter = std::min(picture.width, picture.height);
  const auto side = [&](int length) { return static_cast<int>(crop.resize * length / shorter); };
  return {.part = {0, 0, picture.width, picture.height},
          .resized = {side(picture.width), side(picture.height)}};
}

// Half of what is left over, halves to the even number as Python rounds.
int centred(int space, std::int64_t size) {
  return static_cast<int>(std::nearbyint(static_cast<double>(space - size) / 2.0));
}

PictureRect random_part(const PictureSize& picture, const CropSection& crop, CounterRandom& random) {
  const double pixels = static_cast<double>(picture.width) * picture.height;
  const double narrowest = std::log(crop.aspect.front());
  const double widest = std::log(crop.aspect.back());
  constexpr int kTries = 10;
  for (int i = 0; i < kTries; ++i) {
    const double share = crop.area.front() + (crop.area.back() - crop.area.front()) * random.next_double();
    const double aspect = std::exp(narrowest + (widest - narrowest) * random.next_double());
    const auto width = std::lround(std::sqrt(pixels * share * aspect));
    const auto height = std::lround(std::sqrt(pixels * share / aspect));
    if (width < 1 || height < 1 || width > picture.width || height > picture.height) continue;
    PictureRect part{.width = static_cast<int>(width), .height = static_cast<int>(height)};
    part.x = static_cast<int>(random.next_below(static_cast<std::uint64_t>(picture.width - width + 1)));
    part.y = static_cast<int>(random.next_below(static_cast<std::uint64_t>(picture.height - height + 1)));
    return part;
  }
  const double aspect = static_cast<double>(picture.width) / picture.height;
  PictureRect part{0, 0, picture.width, picture.height};
  if (aspect < crop.aspect.front()) {
    part.height =
        std::clamp(static_cast<int>(std::lround(part.width / crop.aspect.front())), 1, picture.height);
  } else if (aspect > crop.aspect.back()) {
    part.width =
        std::clamp(static_cast<int>(std::lround(part.height * crop.aspect.back())), 1, picture.width);
  }
  part.x = (picture.width - part.width) / 2;
  part.y = (picture.height - part.height) / 2;
  return part;
}

}  // namespace

Placement evaluation_placement(const PictureSize& picture, const CropSection& crop) {
  Placement placement = resized_whole(picture, crop);
  placement.left = centred(placement.resized.width, crop.size);
  placement.top = centred(placement.resized.height, crop.size);
  return placement;
}

Placement training_placement(const PictureSize& picture, const CropSection& crop, CounterRandom& random) {
  Placement placement;
  const auto size = static_cast<int>(crop.size);
  if (crop.kind == CropKind::kArea) {
    placement.part = random_part(picture, crop, random);
    placement.resized = {size, size};
  } else {
    placement = resized_whole(picture, crop);
    const auto padding = static_cast<int>(crop.padding);
    const auto anywhere = [&](int length) {
      const int room = length + 2 * padding - size;
      return static_cast<int>(random.next_below(static_cast<std::uint64_t>(room + 1))) - padding;
    };
    placement.top = anywhere(placement.resized.height);
    placement.left = anywhere(placement.resized.width);
  }
  placement.is_flipped = crop.flip && random.next_below(2) == 1;
  return placement;
}

}  // namespace paceline
