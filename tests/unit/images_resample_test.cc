// Resizing: the fast loops against the plain one, and the plain one against the definition.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <vector>

#include "tests/unit/encoded_pictures.h"
#include "worker/images/placement.h"
#include "worker/images/resample.h"

namespace paceline {
namespace {

Picture some_picture(int width, int height) {
  Picture picture;
  picture.reset(width, height);
  const auto pixels = some_pixels(width, height, 4);
  std::memcpy(picture.bytes.data(), pixels.data(), pixels.size());
  return picture;
}

// A few rows at a time.
Picture resized(const Picture& in, const Axis& columns, const Axis& rows,
                const pixels::Loops& with = pixels::best(), int at_a_time = 5) {
  Picture part;
  part.reset(columns.end - columns.begin, rows.end - rows.begin);
  for (int y = 0; y < part.height; ++y) {
    std::memcpy(part.row(y), in.row(rows.begin + y) + columns.begin * 4, part.row_bytes());
  }
  Resampler resampler;
  resampler.begin(columns, rows, with);
  Picture out;
  out.reset(columns.count(), rows.count());
  int done = 0;
  for (int y = 0; y < part.height; y += at_a_time) {
    const Picture& made = resampler.take({part.row(y), part.stride, std::min(at_a_time, part.height - y)});
    REQUIRE(done + made.height <= out.height);
    for (int i = 0; i < made.height; ++i) std::memcpy(out.row(done++), made.row(i), out.row_bytes());
  }
  CHECK(done == out.height);
  return out;
}

bool equal(const Picture& a, const Picture& b) {
  return a.width == b.width && a.height == b.height &&
         std::memcmp(a.bytes.data(), b.bytes.data(), a.row_bytes() * static_cast<std::size_t>(a.height)) == 0;
}

// One direction's output by the triangle itself, in double precision.
double exact(const std::vector<double>& in, int to, int output) {
  const double scale = static_cast<double>(in.size()) / to;
  const double reach = std::max(scale, 1.0);
  const double centre = (output + 0.5) * scale;
  double sum = 0;
  double weights = 0;
  for (std::size_t i = 0; i < in.size(); ++i) {
    const double weight = std::max(0.0, 1.0 - std::abs(static_cast<double>(i) + 0.5 - centre) / reach);
    sum += weight * in[i];
    weights += weight;
  }
  return sum / weights;
}

struct Sizes {
  PictureSize from;
  PictureSize to;
};
const Sizes kSizes[] = {{{500, 375}, {224, 224}}, {{31, 47}, {32, 32}}, {{7, 5}, {32, 24}},
                        {{1, 1}, {9, 4}},         {{100, 3}, {1, 1}},   {{33, 64}, {33, 16}},
                        {{64, 33}, {16, 33}},     {{13, 13}, {13, 13}}};

TEST_CASE("the_loops_of_every_instruction_set_resize_as_the_plain_ones_to_the_bit") {
  for (const Sizes& sizes : kSizes) {
    INFO(sizes.from.width << "x" << sizes.from.height << " to " << sizes.to.width << "x" << sizes.to.height);
    const Picture in = some_picture(sizes.from.width, sizes.from.height);
    const Axis columns = Axis::make(sizes.from.width, sizes.to.width, 0, sizes.to.width);
    const Axis rows = Axis::make(sizes.from.height, sizes.to.height, 0, sizes.to.height);
    const Picture expected = resized(in, columns, rows, pixels::reference());
    for (const pixels::Loops* loops : pixels::available()) {
      INFO(loops->name);
      CHECK(equal(resized(in, columns, rows, *loops), expected));
    }
  }
}

TEST_CASE("how_many_rows_come_at_a_time_changes_nothing") {
  for (const Sizes& sizes : kSizes) {
    INFO(sizes.from.width << "x" << sizes.from.height << " to " << sizes.to.width << "x" << sizes.to.height);
    const Picture in = some_picture(sizes.from.width, sizes.from.height);
    const Axis columns = Axis::make(sizes.from.width, sizes.to.width, 0, sizes.to.width);
    const Axis rows = Axis::make(sizes.from.height, sizes.to.height, 0, sizes.to.height);
    const Picture at_once = resized(in, columns, rows, pixels::best(), in.height);
    for (const int at_a_time : {1, 2, 8}) {
      CHECK(equal(resized(in, columns, rows, pixels::best(), at_a_time), at_once));
    }
  }
}

TEST_CASE("the_loops_of_every_instruction_set_normalise_as_the_plain_one_to_the_bit") {
  constexpr int kPixels = 37;
  const auto row = some_pixels(kPixels, 1, 4);
  const float mean[3] = {123.675F, 116.28F, 103.53F};
  const float scale[3] = {0.0171F, 0.0175F, 0.0174F};
  const auto normalized_by = [&](const pixels::Loops& loops, bool is_mirrored) {
    std::vector<float> out(3 * kPixels);
    loops.normalize(row.data(), kPixels, mean, scale, is_mirrored,
                    {out.data(), out.data() + kPixels, out.data() + 2 * kPixels});
    return out;
  };
  const std::vector<float> expected = normalized_by(pixels::reference(), false);
  CHECK(expected[1] == (static_cast<float>(row[4]) - mean[0]) * scale[0]);
  CHECK(expected[2 * kPixels] == (static_cast<float>(row[2]) - mean[2]) * scale[2]);
  for (const pixels::Loops* loops : pixels::available()) {
    INFO(loops->name);
    CHECK(normalized_by(*loops, false) == expected);
    std::vector<float> mirrored = normalized_by(*loops, true);
    for (int colour = 0; colour < 3; ++colour) {
      const auto first = mirrored.begin() + colour * kPixels;
      std::reverse(first, first + kPixels);
    }
    CHECK(mirrored == expected);
  }
}

// Two roundings to bytes and 14 bits of weight: within one level.
TEST_CASE("a_resized_picture_is_the_triangle_s_mean_within_one_level") {
  for (const Sizes& sizes : kSizes) {
    INFO(sizes.from.width << "x" << sizes.from.height << " to " << sizes.to.width << "x" << sizes.to.height);
    const Picture in = some_picture(sizes.from.width, sizes.from.height);
    const Picture out = resized(in, Axis::make(sizes.from.width, sizes.to.width, 0, sizes.to.width),
                                Axis::make(sizes.from.height, sizes.to.height, 0, sizes.to.height));
    double worst = 0;
    for (int x = 0; x < out.width; x += 3) {
      std::vector<double> narrowed;
      for (int y = 0; y < in.height; ++y) {
        std::vector<double> row;
        for (int i = 0; i < in.width; ++i) row.push_back(in.row(y)[i * 4 + 1]);
        narrowed.push_back(exact(row, out.width, x));
      }
      for (int y = 0; y < out.height; ++y) {
        worst = std::max(worst, std::abs(out.row(y)[x * 4 + 1] - exact(narrowed, out.height, y)));
      }
    }
    CHECK(worst <= 1.0);
  }
}

TEST_CASE("one_colour_stays_that_colour_and_the_same_size_the_same_picture") {
  Picture white;
  white.reset(77, 41);
  std::fill(white.bytes.begin(), white.bytes.end(), std::uint8_t{255});
  const Picture small = resized(white, Axis::make(77, 19, 0, 19), Axis::make(41, 23, 0, 23));
  for (int y = 0; y < small.height; ++y) {
    for (std::size_t i = 0; i < small.row_bytes(); ++i) CHECK(small.row(y)[i] == 255);
  }
  const Picture in = some_picture(32, 32);
  const Axis same = Axis::make(32, 32, 0, 32);
  CHECK(same.is_copy());
  CHECK(equal(resized(in, same, same), in));
}

TEST_CASE("a_window_of_the_output_needs_only_its_inputs_and_is_the_same") {
  const Picture in = some_picture(200, 150);
  const Picture whole = resized(in, Axis::make(200, 64, 0, 64), Axis::make(150, 48, 0, 48));
  const Axis columns = Axis::make(200, 64, 10, 20);
  const Axis rows = Axis::make(150, 48, 5, 7);
  CHECK(columns.begin > 20);
  CHECK(columns.end < 110);
  const Picture part = resized(in, columns, rows);
  for (int y = 0; y < part.height; ++y)
    CHECK(std::memcmp(part.row(y), whole.row(5 + y) + 40, part.row_bytes()) == 0);
}

TEST_CASE("an_evaluation_shows_the_centre_of_the_resized_picture") {
  const CropSection crop{.size = 224, .resize = 256};
  CHECK(evaluation_placement({500, 375}, crop) == Placement{{0, 0, 500, 375}, {341, 256}, 58, 16, false});
  CHECK(evaluation_placement({375, 500}, crop) == Placement{{0, 0, 375, 500}, {256, 341}, 16, 58, false});
  CHECK(evaluation_placement({1, 3}, {.size = 1, .resize = 1}) ==
        Placement{{0, 0, 1, 3}, {1, 3}, 0, 1, false});
}

TEST_CASE("a_random_part_lies_in_the_picture_with_the_area_and_aspect_that_are_allowed") {
  const CropSection crop;
  int flipped = 0;
  double areas = 0;
  constexpr int kDraws = 2000;
  for (std::uint64_t i = 0; i < kDraws; ++i) {
    CounterRandom random(7, Stream::kTest, i);
    const Placement p = training_placement({500, 375}, crop, random);
    REQUIRE((p.part.x >= 0 && p.part.y >= 0 && p.part.x + p.part.width <= 500 &&
             p.part.y + p.part.height <= 375));
    const double area = p.part.width * p.part.height / (500.0 * 375.0);
    const double aspect = static_cast<double>(p.part.width) / p.part.height;
    REQUIRE((area > 0.078 && area <= 1.0 && aspect > 0.74 && aspect < 1.35));  // sides are whole pixels
    REQUIRE(p.resized == PictureSize{224, 224});
    flipped += p.is_flipped ? 1 : 0;
    areas += area / kDraws;
  }
  CHECK(std::abs(flipped - kDraws / 2) < 5 * 23);  // five standard deviations
  CHECK(areas > 0.41);  // below the mean of the shares drawn: large parts often do not fit
  CHECK(areas < 0.54);
}

TEST_CASE("a_picture_too_long_for_any_aspect_gives_its_largest_part_in_the_middle") {
  CounterRandom random(1, Stream::kTest);
  CropSection crop;
  crop.area = {1.0, 1.0};
  CHECK(training_placement({300, 30}, crop, random).part == PictureRect{130, 0, 40, 30});
  CHECK(training_placement({30, 300}, crop, random).part == PictureRect{0, 130, 30, 40});
}

TEST_CASE("a_random_place_reaches_every_corner_of_the_padded_picture") {
  const CropSection crop{.size = 32, .resize = 32, .kind = CropKind::kPlace, .padding = 4, .flip = false};
  bool first = false;
  bool last = false;
  for (std::uint64_t i = 0; i < 2000; ++i) {
    CounterRandom random(7, Stream::kTest, i);
    const Placement p = training_placement({32, 32}, crop, random);
    REQUIRE((p.left >= -4 && p.left <= 4 && p.top >= -4 && p.top <= 4 && !p.is_flipped));
    first = first || (p.left == -4 && p.top == -4);
    last = last || (p.left == 4 && p.top == 4);
  }
  CHECK(first);
  CHECK(last);
}

}  // namespace
}  // namespace paceline
