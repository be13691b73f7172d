// The ten shapes and how a picture of one is drawn; see shapes.h.
#include "worker/data/shapes.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "common/assert.h"
#include "common/random.h"

namespace paceline {
namespace {

using Colour = std::array<float, 3>;  // 0 .. 255

// How hard the task is: chosen so that cifar_cnn_small reaches about 85-92 % in a few epochs (docs/DATA.md).
constexpr float kRadiusMin = 6.0F;  // pixels
constexpr float kRadiusMax = 11.0F;
constexpr float kWander = 5.0F;  // how far the centre may be from the middle of the image, pixels, both ways
constexpr float kNoiseMin = 8.0F;  // standard deviation, in grey levels of 255
constexpr float kNoiseMax = 40.0F;
constexpr float kDarkMax = 140.0F;      // background: every channel 0 .. this
constexpr float kBrightMin = 100.0F;    // foreground: every channel this .. 255
constexpr float kContrastMin = 120.0F;  // sum over the channels of foreground - background
constexpr int kClutter = 2;             // small discs in random colours behind the shape

float length(float x, float y) { return std::sqrt(x * x + y * y); }
float box(float x, float y, float half_width, float half_height) {
  return std::max(std::abs(x) - half_width, std::abs(y) - half_height);
}

// The signed distance (roughly; negative inside) from (x, y) to the outline of shape `label` of radius
// about 1.
float distance_to_shape(std::uint8_t label, float x, float y) {
  const float r = length(x, y);
  switch (label) {
    case 0:
      return r - 0.85F;  // disc
    case 1:
      return std::abs(r - 0.7F) - 0.22F;  // ring
    case 2:
      return box(x, y, 0.75F, 0.75F);  // square
    case 3:
      return std::abs(box(x, y, 0.62F, 0.62F)) - 0.2F;  // frame: a hollow square
    case 4:
      return std::max(-y - 0.5F, 0.866F * std::abs(x) + 0.5F * y - 0.5F);  // triangle
    case 5:
      return std::min(box(x, y, 0.95F, 0.28F), box(x, y, 0.28F, 0.95F));  // cross
    case 6:
      return box(x, std::abs(y) - 0.45F, 0.85F, 0.22F);  // bars: two parallel ones
    case 7:
      return std::max(box(x, y, 0.85F, 0.85F), std::min(std::max(-x, -y), std::max(x, y)));  // checks: 2 x 2
    case 8:
      return std::max(r - 0.9F, 0.65F - length(x - 0.45F, y));  // crescent
    case 9:
      return length(std::abs(x) - 0.5F, y) - 0.42F;  // two discs
    default:
      break;
  }
  PACELINE_ASSERT(false, "no shape for label " + std::to_string(label));
}

float uniform(CounterRandom& random, float low, float high) {
  return low + (high - low) * random.next_float();
}

Colour any_colour(CounterRandom& random, float low, float high) {
  return {uniform(random, low, high), uniform(random, low, high), uniform(random, low, high)};
}

// A bright colour that can be told from the dark `other`. Terminates: the average bright colour already
// qualifies.
Colour contrasting_colour(CounterRandom& random, const Colour& other) {
  for (;;) {
    const Colour colour = any_colour(random, kBrightMin, 255);
    const float contrast = colour[0] - other[0] + colour[1] - other[1] + colour[2] - other[2];
    if (contrast >= kContrastMin) return colour;
  }
}

struct Direction {
  float x = 1;
  float y = 0;
};

// Uniform on the circle: a point of the unit disc, by rejection, scaled to length 1.
Direction any_direction(CounterRandom& random) {
  for (;;) {
    const float x = uniform(random, -1, 1);
    const float y = uniform(random, -1, 1);
    const float square = x * x + y * y;
    if (square <= 1.0F && square > 0.01F) {
      const float norm = std::sqrt(square);
      return {x / norm, y / norm};
    }
  }
}

// Roughly normal, mean 0, standard deviation 1: the sum of four random bytes (Irwin-Hall), centred and
// scaled.
float noise(CounterRandom& random) {
  const std::uint32_t bits = random.next_u32();
  const auto sum =
      static_cast<float>((bits & 255U) + ((bits >> 8) & 255U) + ((bits >> 16) & 255U) + (bits >> 24));
  return (sum - 510.0F) / 147.8F;
}

struct Spot {
  float x = 0;
  float y = 0;
  float radius = 0;
  Colour colour{};
};

// How much of the pixel lies inside an outline `distance` pixels away: a soft edge one pixel wide.
float coverage(float distance) { return std::clamp(0.5F - distance, 0.0F, 1.0F); }

void blend(Colour& under, const Colour& over, float share) {
  for (std::size_t c = 0; c < 3; ++c) under[c] += share * (over[c] - under[c]);
}

}  // namespace

void draw_shape(std::uint64_t seed, Split split, std::int64_t sample, std::uint8_t label,
                std::span<std::uint8_t> image) {
  PACELINE_ASSERT(image.size() == static_cast<std::size_t>(kImageSize), "an image has 3072 bytes");
  CounterRandom random(seed, Stream::kSyntheticData, static_cast<std::uint64_t>(split),
                       static_cast<std::uint64_t>(sample));

  const float radius = uniform(random, kRadiusMin, kRadiusMax);
  const float centre_x = 0.5F * kImageSide + uniform(random, -kWander, kWander);
  const float centre_y = 0.5F * kImageSide + uniform(random, -kWander, kWander);
  const Direction axis = any_direction(random);
  const Colour background = any_colour(random, 0, kDarkMax);
  const Colour shade = any_colour(random, 0, kDarkMax);  // the background fades a third of the way towards it
  const Direction fade = any_direction(random);
  const Colour foreground = contrasting_colour(random, background);
  const float sigma = uniform(random, kNoiseMin, kNoiseMax);
  std::array<Spot, kClutter> clutter;
  for (Spot& spot : clutter) {
    spot.x = uniform(random, 0, kImageSide);
    spot.y = uniform(random, 0, kImageSide);
    spot.radius = uniform(random, 1.0F, 2.5F);
    spot.colour = any_colour(random, 0, 255);
  }

  for (std::int64_t row = 0; row < kImageSide; ++row) {
    for (std::int64_t column = 0; column < kImageSide; ++column) {
      const float px = static_cast<float>(column) + 0.5F;
      const float py = static_cast<float>(row) + 0.5F;
      const float along =
          ((px - 16.0F) * fade.x + (py - 16.0F) * fade.y) / 45.0F + 0.5F;  // 0 .. 1 over the diagonal
      Colour colour = background;
      blend(colour, shade, 0.33F * std::clamp(along, 0.0F, 1.0F));
      for (const Spot& spot : clutter) {
        blend(colour, spot.colour, coverage(length(px - spot.x, py - spot.y) - spot.radius));
      }
      // Into the shape's own frame: moved to its centre, turned, and scaled to radius 1.
      const float dx = (px - centre_x) / radius;
      const float dy = (py - centre_y) / radius;
      const float x = dx * axis.x + dy * axis.y;
      const float y = dy * axis.x - dx * axis.y;
      blend(colour, foreground, coverage(distance_to_shape(label, x, y) * radius));
      for (std::int64_t c = 0; c < kImageChannels; ++c) {
        const float value = colour[static_cast<std::size_t>(c)] + sigma * noise(random);
        image[static_cast<std::size_t>(c * kPlaneSize + row * kImageSide + column)] =
            static_cast<std::uint8_t>(std::clamp(value + 0.5F, 0.0F, 255.0F));
      }
    }
  }
}

}  // namespace paceline
