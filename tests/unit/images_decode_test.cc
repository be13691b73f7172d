// Decoding: a part is what cutting it out of the whole gives, and every kind of file becomes RGB.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>

#include "common/random.h"
#include "tests/unit/encoded_pictures.h"
#include "worker/images/jpeg_decoder.h"
#include "worker/images/orientation.h"
#include "worker/images/picture_info.h"
#include "worker/images/png_decoder.h"

namespace paceline {
namespace {

PictureInfo info_of(const Encoded& file) { return read_picture_head(file).value().info; }
PictureRect whole_of(const PictureInfo& info) { return {0, 0, info.stored.width, info.stored.height}; }

Picture decoded(const Encoded& file, const PictureRect& part, DecodeMode mode = DecodeMode::kFused) {
  JpegDecoder decoder;
  Picture picture;
  const Status status = decoder.decode(file, info_of(file), part, mode, 1, picture);
  INFO(status.message());
  REQUIRE(status.is_ok());
  return picture;
}

Picture cut(const Picture& from, const PictureRect& part) {
  Picture to;
  to.reset(part.width, part.height);
  for (int y = 0; y < part.height; ++y) {
    std::memcpy(to.row(y), from.row(part.y + y) + part.x * 4, to.row_bytes());
  }
  return to;
}

// Without what lies after the last row, and without the fourth bytes, which mean nothing.
bool same_colours(const Picture& a, const Picture& b) {
  if (a.width != b.width || a.height != b.height) return false;
  for (int y = 0; y < a.height; ++y) {
    for (int x = 0; x < a.width; ++x) {
      if (std::memcmp(a.row(y) + x * 4, b.row(y) + x * 4, 3) != 0) return false;
    }
  }
  return true;
}

std::vector<int> colour_at(const Picture& picture, int x, int y) {
  const std::uint8_t* const pixel = picture.row(y) + x * 4;
  return {pixel[0], pixel[1], pixel[2]};
}

struct Case {
  const char* name;
  JpegKind kind;
};
const Case kJpegs[] = {
    {"4:4:4", {.across = 1, .down = 1}},
    {"4:2:2", {.across = 2, .down = 1}},
    {"4:2:0", {.across = 2, .down = 2}},
    {"4:4:0", {.across = 1, .down = 2}},
    {"4:1:1", {.across = 4, .down = 1}},
    {"4:1:0", {.across = 4, .down = 2}},
    {"grey", {.colours = JCS_GRAYSCALE}},
    {"rgb", {.colours = JCS_RGB}},
    {"cmyk", {.colours = JCS_CMYK}},
    {"ycck", {.colours = JCS_YCCK}},
    {"progressive 4:2:0", {.is_progressive = true}},
    {"progressive 4:4:4", {.across = 1, .down = 1, .is_progressive = true}},
    {"progressive grey", {.colours = JCS_GRAYSCALE, .is_progressive = true}},
};

TEST_CASE("a_part_decoded_alone_is_the_same_to_the_bit_as_cut_from_the_whole") {
  CounterRandom random(5, Stream::kTest);
  const auto below = [&](int bound) {
    return static_cast<int>(random.next_below(static_cast<std::uint64_t>(bound)));
  };
  JpegDecoder reused;
  for (const Case& jpeg : kJpegs) {
    for (const auto& [width, height] : {std::pair{96, 80}, {97, 67}, {33, 50}, {17, 9}, {5, 3}, {1, 1}}) {
      const Encoded file = some_jpeg(width, height, jpeg.kind);
      const Picture whole = decoded(file, whole_of(info_of(file)), DecodeMode::kWhole);
      std::vector<PictureRect> parts = {{0, 0, width, height},
                                        {0, 0, 1, 1},
                                        {width - 1, height - 1, 1, 1},
                                        {width / 2, 0, width - width / 2, height},
                                        {0, height / 2, width, height - height / 2}};
      for (int i = 0; i < 40; ++i) {
        PictureRect part{.x = below(width), .y = below(height)};
        part.width = 1 + below(width - part.x);
        part.height = 1 + below(height - part.y);
        parts.push_back(part);
      }
      // Every place that the left edge can have in a block, with room on both sides.
      for (int x = 0; x < std::min(width - 20, 48); ++x) parts.push_back({x, 1, 20, height - 1});
      for (const PictureRect& part : parts) {
        INFO(jpeg.name << " " << width << "x" << height << ": " << part.width << "x" << part.height << " at "
                       << part.x << "," << part.y);
        Picture fused;
        REQUIRE(reused.decode(file, info_of(file), part, DecodeMode::kFused, 1, fused).is_ok());
        REQUIRE(same_colours(fused, cut(whole, part)));
        Picture band;
        Picture joined;
        joined.reset(part.width, part.height);
        int y = 0;
        const auto join = [&](const pixels::RowsIn& rows) {
          for (int row = 0; row < rows.count; ++row, ++y) {
            const std::uint8_t* const from = rows.first + static_cast<std::size_t>(row) * rows.stride;
            std::memcpy(joined.row(y), from, joined.row_bytes());
          }
        };
        REQUIRE(reused.decode_in_bands(file, info_of(file), part, DecodeMode::kFused, 1, band, join).is_ok());
        REQUIRE(y == part.height);
        REQUIRE(same_colours(joined, fused));
      }
    }
  }
}

TEST_CASE("a_part_at_half_size_is_cut_from_the_whole_at_half_size") {
  const Encoded file = some_jpeg(97, 67);
  JpegDecoder decoder;
  Picture whole;
  REQUIRE(decoder.decode(file, info_of(file), {0, 0, 49, 34}, DecodeMode::kWhole, 2, whole).is_ok());
  Picture part;
  REQUIRE(decoder.decode(file, info_of(file), {11, 7, 20, 13}, DecodeMode::kFused, 2, part).is_ok());
  CHECK(same_colours(part, cut(whole, {11, 7, 20, 13})));
}

TEST_CASE("grey_rgb_and_inverted_cmyk_become_red_green_and_blue") {
  const JpegKind best{.across = 1, .down = 1, .quality = 100};
  const auto colour_of = [&](J_COLOR_SPACE space, std::vector<std::uint8_t> pixel) {
    JpegKind kind = best;
    kind.colours = space;
    std::vector<std::uint8_t> pixels;
    for (int i = 0; i < 64; ++i) pixels.insert(pixels.end(), pixel.begin(), pixel.end());
    return colour_at(decoded(jpeg_of(8, 8, pixels, kind), {0, 0, 8, 8}), 3, 3);
  };
  CHECK(colour_of(JCS_GRAYSCALE, {77}) == std::vector<int>{77, 77, 77});
  CHECK(colour_of(JCS_RGB, {200, 30, 90}) == std::vector<int>{200, 30, 90});
  // Ink is stored as what is left of the light: 255 is none.
  CHECK(colour_of(JCS_CMYK, {255, 255, 255, 255}) == std::vector<int>{255, 255, 255});
  CHECK(colour_of(JCS_CMYK, {0, 255, 255, 255}) == std::vector<int>{0, 255, 255});
  CHECK(colour_of(JCS_CMYK, {255, 255, 255, 100}) == std::vector<int>{100, 100, 100});
  CHECK(colour_of(JCS_CMYK, {255, 255, 255, 0}) == std::vector<int>{0, 0, 0});
}

TEST_CASE("what_is_missing_or_broken_is_an_error_and_the_decoder_goes_on_with_the_next_file") {
  JpegDecoder decoder;
  Picture picture;
  const Encoded good = some_jpeg(64, 64);
  const PictureInfo info = info_of(good);
  Encoded cut_off = good;
  cut_off.resize(good.size() / 2);
  CHECK(decoder.decode(cut_off, info, whole_of(info), DecodeMode::kFused, 1, picture).code() ==
        StatusCode::kDataLoss);
  Encoded scrambled = good;
  scrambled[good.size() / 2] = 0xFF;  // an end mark among the pixels
  scrambled[good.size() / 2 + 1] = 0xD9;
  const Status broken = decoder.decode(scrambled, info, whole_of(info), DecodeMode::kFused, 1, picture);
  CHECK_THAT(broken.message(), Catch::StartsWith("broken JPEG: "));
  const Encoded other = some_jpeg(32, 64);
  CHECK_THAT(decoder.decode(other, info, whole_of(info), DecodeMode::kFused, 1, picture).message(),
             Catch::Contains("32 x 64, expected 64 x 64"));
  CHECK(decoder.decode(good, info, whole_of(info), DecodeMode::kFused, 1, picture).is_ok());
}

TEST_CASE("a_progressive_JPEG_of_more_than_a_hundred_scans_is_refused") {
  const JpegKind kind{.colours = JCS_GRAYSCALE,
                      .is_progressive = true,
                      .scans = {{1, {0}, 0, 0, 0, 0}, {1, {0}, 1, 63, 0, 0}}};
  const Encoded two = some_jpeg(64, 64, kind);
  const std::vector<std::uint8_t> mark = {0xFF, 0xDA};
  const auto last = std::find_end(two.begin(), two.end(), mark.begin(), mark.end());
  const auto with_scans = [&](int scans) {  // the last again and again, which changes nothing
    Encoded file(two.begin(), last);
    for (int i = 1; i < scans; ++i) file.insert(file.end(), last, two.end() - 2);
    file.insert(file.end(), two.end() - 2, two.end());
    return file;
  };
  const PictureInfo info = info_of(two);
  CHECK(same_colours(decoded(with_scans(100), whole_of(info)), decoded(two, whole_of(info))));
  JpegDecoder decoder;
  Picture picture;
  const Status many = decoder.decode(with_scans(101), info, whole_of(info), DecodeMode::kFused, 1, picture);
  CHECK(many.message() == "broken JPEG: more than 100 scans");
}

Picture png_decoded(const Encoded& file) {
  Picture picture;
  const Status status = decode_png(file, info_of(file), picture);
  INFO(status.message());
  REQUIRE(status.is_ok());
  return picture;
}

TEST_CASE("a_PNG_of_any_kind_becomes_red_green_and_blue") {
  using Colour = std::vector<int>;
  const std::vector<std::uint8_t> rgb = {10, 20, 30, 40, 50, 60};
  CHECK(colour_at(png_decoded(png_of(2, 1, rgb)), 1, 0) == Colour{40, 50, 60});
  const PngKind alpha{.colours = PNG_COLOR_TYPE_RGBA};
  CHECK(colour_at(png_decoded(png_of(1, 1, {10, 20, 30, 0}, alpha)), 0, 0) == Colour{10, 20, 30});
  const PngKind grey{.colours = PNG_COLOR_TYPE_GRAY};
  CHECK(colour_at(png_decoded(png_of(2, 1, {7, 9}, grey)), 1, 0) == Colour{9, 9, 9});
  const PngKind bits{.depth = 1, .colours = PNG_COLOR_TYPE_GRAY};
  CHECK(colour_at(png_decoded(png_of(2, 1, {0x40}, bits)), 1, 0) == Colour{255, 255, 255});
  const PngKind deep{.depth = 16, .colours = PNG_COLOR_TYPE_RGB};
  CHECK(colour_at(png_decoded(png_of(1, 1, {0x80, 0x80, 0x00, 0xFF, 0xFF, 0xFF}, deep)), 0, 0) ==
        Colour{128, 1, 255});
  const PngKind deep_grey{.depth = 16, .colours = PNG_COLOR_TYPE_GRAY};
  CHECK(colour_at(png_decoded(png_of(1, 1, {0x64, 0x64}, deep_grey)), 0, 0) == Colour{100, 100, 100});
  const PngKind palette{.colours = PNG_COLOR_TYPE_PALETTE, .palette = {{1, 2, 3}, {4, 5, 6}}};
  CHECK(colour_at(png_decoded(png_of(2, 1, {1, 0}, palette)), 0, 0) == Colour{4, 5, 6});
}

TEST_CASE("an_interlaced_PNG_is_the_same_picture_and_one_that_is_cut_off_an_error") {
  const std::vector<std::uint8_t> pixels = some_pixels(19, 13, 3);
  const Encoded plain = png_of(19, 13, pixels);
  CHECK(same_colours(png_decoded(png_of(19, 13, pixels, {.is_interlaced = true})), png_decoded(plain)));
  Encoded cut_off = plain;
  cut_off.resize(plain.size() / 2);
  Picture picture;
  CHECK(decode_png(cut_off, info_of(plain), picture).message() == "broken PNG: it is cut off");
}

TEST_CASE("a_picture_is_turned_as_Exif_says_and_a_part_of_it_as_the_whole") {
  Picture stored;
  stored.reset(5, 3);
  for (std::size_t i = 0; i < 5 * 3 * 4; ++i) stored.bytes[i] = static_cast<std::uint8_t>(i / 4);
  // Where the corner that is stored first is shown: 1 top left, 2 top right, 3 bottom right, 4 bottom left, and so
  // again with rows for columns.
  const std::pair<int, int> corners[] = {{0, 0}, {4, 0}, {4, 2}, {0, 2}, {0, 0}, {2, 0}, {2, 4}, {0, 4}};
  for (int orientation = 1; orientation <= 8; ++orientation) {
    INFO(orientation);
    const auto as = static_cast<std::uint8_t>(orientation);
    Picture shown;
    orient(stored, as, shown);
    CHECK(shown.width == (orientation < 5 ? 5 : 3));
    const auto [x, y] = corners[orientation - 1];
    CHECK(colour_at(shown, x, y) == std::vector<int>{0, 0, 0});
    const PictureRect part{1, 1, 2, 1};
    Picture turned;
    orient(cut(stored, stored_part(part, as, {5, 3})), as, turned);
    CHECK(same_colours(turned, cut(shown, part)));
  }
}

TEST_CASE("the_head_says_what_a_file_is_whatever_its_name_and_how_it_was_held") {
  CHECK(info_of(some_jpeg(31, 20, {.orientation = 6})) == PictureInfo{PictureKind::kJpeg, {31, 20}, 6});
  CHECK(info_of(some_jpeg(31, 20, {.orientation = 6})).shown() == PictureSize{20, 31});
  CHECK(info_of(some_jpeg(31, 20, {.orientation = 9})).orientation == 1);
  CHECK(info_of(some_jpeg(31, 20, {.is_progressive = true})).stored == PictureSize{31, 20});
  CHECK(info_of(png_of(1, 1, {1, 2, 3})) == PictureInfo{PictureKind::kPng, {1, 1}, 1});
}

TEST_CASE("a_head_that_is_no_picture_s_is_refused_with_its_reason") {
  const auto fault = [](Encoded head) { return read_picture_head(head).status().message(); };
  CHECK(fault({}) == "an empty file");
  CHECK(fault({'G', 'I', 'F', '8', '9', 'a'}) == "neither a JPEG nor a PNG");
  CHECK(fault({0xFF, 0xD8, 0xFF}) == "JPEG that ends before its first pixel");
  CHECK(fault({0xFF, 0xD8, 0xFF, 0xE0, 0, 1, 0, 0}) == "JPEG with a segment of 1 bytes");
  CHECK(fault({0xFF, 0xD8, 0xFF, 0xDA, 0, 2, 0, 0}) == "JPEG without a frame header");
  CHECK(fault({0xFF, 0xD8, 0xFF, 0xC0, 0, 8, 8, 0, 0, 0, 5, 3}) == "JPEG of 5 x 0 pixels");
  Encoded png = png_of(1, 1, {1, 2, 3});
  png[19] = 0;  // the width's last byte
  CHECK(fault(png) == "PNG of 0 x 1 pixels, expected sides of 1 to 65535");
  png[17] = 1;  // of a line so long that, resized, it would have more pixels than an int can count
  CHECK(fault(png) == "PNG of 65536 x 1 pixels, expected sides of 1 to 65535");
  png.resize(20);
  CHECK(fault(png) == "PNG that ends before its first pixel");
  // Whatever is cut off or changed: an answer, within the bytes (address sanitizer).
  CounterRandom random(3, Stream::kTest);
  const Encoded good = some_jpeg(31, 20, {.orientation = 6});
  for (int i = 0; i < 2000; ++i) {
    Encoded changed(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(random.next_below(good.size())));
    for (int k = 0; k < 3 && !changed.empty(); ++k) {
      changed[random.next_below(std::min<std::size_t>(changed.size(), 80))] =
          static_cast<std::uint8_t>(random.next_u32());
    }
    const auto head = read_picture_head(changed);
    if (head.is_ok()) CHECK(head->info.stored.width > 0);
  }
}

TEST_CASE("the_end_mark_of_a_small_picture_inside_does_not_count") {
  Encoded file = some_jpeg(31, 20);
  const std::size_t pixels_at = read_picture_head(file).value().pixels_at;
  CHECK(has_end_mark(PictureKind::kJpeg, std::span(file).subspan(pixels_at)));
  file.resize(file.size() - 2);
  CHECK_FALSE(has_end_mark(PictureKind::kJpeg, std::span(file).subspan(pixels_at)));
}

}  // namespace
}  // namespace paceline
