// Crop, flip and normalisation, against a plain pixel-by-pixel definition.
#include "worker/data/augment.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <set>
#include <tuple>
#include <vector>

#include "common/random.h"

namespace paceline {
namespace {

std::vector<std::uint8_t> any_image(std::uint64_t seed) {
  CounterRandom random(seed, Stream::kTest);
  std::vector<std::uint8_t> image(kImageSize);
  for (auto& pixel : image) pixel = static_cast<std::uint8_t>(random.next_below(256));
  return image;
}

const Normalization kSome{{100.0F, 120.0F, 140.0F}, {0.01F, 0.02F, 0.03F}};

// The definition in augment.h, word for word.
float expected_at(std::span<const std::uint8_t> image, const Augmentation& a, std::int64_t channel,
                  std::int64_t row, std::int64_t column) {
  const std::int64_t counted = a.flip == Flip::kYes ? kImageSide - 1 - column : column;
  const std::int64_t in_row = row + a.down;
  const std::int64_t in_column = counted + a.right;
  if (in_row < 0 || in_row >= kImageSide || in_column < 0 || in_column >= kImageSide) return 0.0F;
  const auto c = static_cast<std::size_t>(channel);
  const auto pixel = image[static_cast<std::size_t>(channel * kPlaneSize + in_row * kImageSide + in_column)];
  return (static_cast<float>(pixel) - kSome.mean[c]) * kSome.scale[c];
}

TEST_CASE("every_crop_and_flip_is_as_defined_bit_for_bit") {
  const auto image = any_image(1);
  std::vector<float> out(kImageSize, -99.0F);
  for (int down = -4; down <= 4; ++down) {
    for (int right = -4; right <= 4; ++right) {
      for (const Flip flip : {Flip::kNo, Flip::kYes}) {
        const Augmentation augmentation{down, right, flip};
        render(image, augmentation, kSome, out);
        int wrong = 0;
        for (std::int64_t i = 0; i < kImageSize; ++i) {
          const float expected =
              expected_at(image, augmentation, i / kPlaneSize, i % kPlaneSize / kImageSide, i % kImageSide);
          wrong += out[static_cast<std::size_t>(i)] != expected;
        }
        CAPTURE(down, right, static_cast<int>(flip));
        CHECK(wrong == 0);
      }
    }
  }
}

TEST_CASE("augmentation_is_a_function_of_seed_epoch_and_sample_and_covers_all_crops_and_flips") {
  CHECK(draw_augmentation(1, 2, 3) == draw_augmentation(1, 2, 3));
  std::set<std::tuple<int, int, Flip>> seen;
  int changed = 0;
  for (std::int64_t sample = 0; sample < 3000; ++sample) {
    const Augmentation a = draw_augmentation(1, 0, sample);
    CHECK((std::abs(a.down) <= kCropPadding && std::abs(a.right) <= kCropPadding));
    seen.emplace(a.down, a.right, a.flip);
    changed += !(a == draw_augmentation(1, 1, sample)) && !(a == draw_augmentation(2, 0, sample));
  }
  CHECK(seen.size() == 9 * 9 * 2);
  CHECK(changed > 2900);  // two draws agree once in 162
}

TEST_CASE("a_normalised_set_has_mean_0_and_standard_deviation_1") {
  DataSet set;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const auto image = any_image(seed);
    set.pixels.insert(set.pixels.end(), image.begin(), image.end());
    set.labels.push_back(0);
  }
  const Normalization normalization = normalization_of(set);
  std::vector<float> out(kImageSize);
  for (std::int64_t channel = 0; channel < kImageChannels; ++channel) {
    double sum = 0;
    double squares = 0;
    for (std::int64_t sample = 0; sample < set.size(); ++sample) {
      render(set.image(sample), {}, normalization, out);
      for (std::int64_t i = channel * kPlaneSize; i < (channel + 1) * kPlaneSize; ++i) {
        const double value = out[static_cast<std::size_t>(i)];
        sum += value;
        squares += value * value;
      }
    }
    const auto count = static_cast<double>(set.size() * kPlaneSize);
    CHECK(std::abs(sum / count) < 1e-5);  // float32 rounding of values of about 1
    CHECK(std::abs(squares / count - 1) < 1e-5);
  }
}

TEST_CASE("a_channel_that_never_varies_becomes_zero_instead_of_infinite") {
  DataSet set;
  set.labels = {0, 0};
  set.pixels.assign(2 * kImageSize, 77);
  const Normalization normalization = normalization_of(set);
  CHECK(normalization.scale == std::array<float, 3>{1.0F, 1.0F, 1.0F});
  std::vector<float> out(kImageSize, -99.0F);
  render(set.image(0), {}, normalization, out);
  CHECK(out == std::vector<float>(kImageSize, 0.0F));
}

}  // namespace

TEST_CASE("a_mean_of_each_place_stays_with_its_pixel_in_a_crop") {
  DataSet set;
  for (int sample = 0; sample < 2; ++sample) {
    set.labels.push_back(0);
    for (std::int64_t i = 0; i < kImageSize; ++i) {
      set.pixels.push_back(static_cast<std::uint8_t>(sample == 0 ? i % 200 : 50));
    }
  }
  DataSection data;
  data.subtract = Subtract::kPixel;
  data.scale = 0.5;
  const PixelRule rule = pixel_rule_of(data, set);
  std::vector<float> out(kImageSize);
  render(set.image(0), {.down = 2, .right = -1}, rule, out);
  // Row 3 and column 5 of the crop are row 5 and column 4 of the image.
  const std::int64_t at = 5 * kImageSide + 4;
  CHECK(out[3 * kImageSide + 5] ==
        (static_cast<float>(at % 200) - static_cast<float>(at % 200 + 50) / 2.0F) * 0.5F);
  CHECK(out[0] == 0.0F);  // from outside

  data.subtract = Subtract::kValues;
  data.subtract_values = {1, 2, 3};
  render(set.image(1), {}, pixel_rule_of(data, set), out);
  CHECK(out[kPlaneSize] == 24.0F);
  data.subtract = Subtract::kNone;
  render(set.image(1), {}, pixel_rule_of(data, set), out);
  CHECK(out[0] == 25.0F);
}

}  // namespace paceline
