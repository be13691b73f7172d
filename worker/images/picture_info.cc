// Reads the markers of a JPEG and the chunks of a PNG up to their pixels; see picture_info.h.
#include "worker/images/picture_info.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>

namespace paceline {
namespace {

using Bytes = std::span<const std::uint8_t>;

constexpr std::array<std::uint8_t, 8> kPngSignature = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1A, '\n'};

bool begins_with(Bytes bytes, std::string_view what) {
  return bytes.size() >= what.size() &&
         std::equal(what.begin(), what.end(), bytes.begin(),
                    [](char a, auto b) { return static_cast<std::uint8_t>(a) == b; });
}

enum class Order { kBig, kLittle };

// The `count` bytes at `at` as a number, which the caller has seen to be there.
std::uint32_t number_at(Bytes bytes, std::size_t at, std::size_t count, Order order = Order::kBig) {
  std::uint32_t number = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t from = order == Order::kBig ? i : count - 1 - i;
    number = (number << 8) | bytes[at + from];
  }
  return number;
}

// The orientation in a TIFF structure, as Exif has it; 1 where it has none or is broken: a picture is not
// worse for that.
std::uint8_t tiff_orientation(Bytes tiff) {
  constexpr std::size_t kEntry = 12;
  constexpr std::uint32_t kOrientation = 0x0112;
  if (tiff.size() < 8) return 1;
  const Order order = tiff[0] == 'I' ? Order::kLittle : Order::kBig;
  const std::size_t directory = number_at(tiff, 4, 4, order);
  if (directory > tiff.size() - 2) return 1;
  const std::size_t entries = number_at(tiff, directory, 2, order);
  for (std::size_t i = 0; i < entries; ++i) {
    const std::size_t at = directory + 2 + i * kEntry;
    if (at + kEntry > tiff.size()) return 1;
    if (number_at(tiff, at, 2, order) != kOrientation) continue;
    const std::uint32_t value = number_at(tiff, at + 8, 2, order);
    return value >= 1 && value <= 8 ? static_cast<std::uint8_t>(value) : std::uint8_t{1};
  }
  return 1;
}

Status ends_early(const char* what) {
  return data_loss(std::string(what) + " that ends before its first pixel");
}

// Frame headers are 0xC0 to 0xCF but for the three that define tables (T.81, table B.1).
bool is_frame(std::uint8_t marker) {
  return marker >= 0xC0 && marker <= 0xCF && marker != 0xC4 && marker != 0xC8 && marker != 0xCC;
}
bool stands_alone(std::uint8_t marker) { return marker == 0x01 || (marker >= 0xD0 && marker <= 0xD8); }

Result<PictureHead> read_jpeg(Bytes head) {
  constexpr std::uint8_t kScan = 0xDA;
  constexpr std::uint8_t kApp1 = 0xE1;
  constexpr std::size_t kExifTag = 6;  // "Exif", two zeros
  PictureInfo info;
  info.kind = PictureKind::kJpeg;
  for (std::size_t at = 2; at + 4 <= head.size();) {
    if (head[at] != 0xFF) {
      ++at;  // decoders look for the next marker, too
      continue;
    }
    const std::uint8_t marker = head[at + 1];
    if (marker == 0xFF || marker == 0x00 || stands_alone(marker)) {
      at += marker == 0xFF ? 1 : 2;
      continue;
    }
    if (marker == kScan) {
      if (info.stored.width > 0) return PictureHead{info, at};
      return data_loss("JPEG without a frame header");
    }
    const std::size_t length = number_at(head, at + 2, 2);
    if (length < 2) return data_loss("JPEG with a segment of " + std::to_string(length) + " bytes");
    if (at + 2 + length > head.size()) return ends_early("JPEG");
    const Bytes segment = head.subspan(at + 4, length - 2);
    if (is_frame(marker)) {
      if (segment.size() < 6) return data_loss("JPEG with a broken frame header");
      info.stored = {static_cast<int>(number_at(segment, 3, 2)), static_cast<int>(number_at(segment, 1, 2))};
      if (info.stored.width == 0 || info.stored.height == 0) {
        return data_loss("JPEG of " + std::to_string(info.stored.width) + " x " +
                         std::to_string(info.stored.height) + " pixels");
      }
    } else if (marker == kApp1 && begins_with(segment, std::string_view("Exif\0\0", kExifTag))) {
      info.orientation = tiff_orientation(segment.subspan(kExifTag));
    }
    at += 2 + length;
  }
  return ends_early("JPEG");
}

constexpr std::size_t kAroundChunk = 12;  // length, type, checksum

Result<PictureHead> read_png(Bytes head) {
  PictureInfo info;
  info.kind = PictureKind::kPng;
  for (std::size_t at = kPngSignature.size(); at + 8 <= head.size();) {
    const std::size_t length = number_at(head, at, 4);
    const Bytes type = head.subspan(at + 4, 4);
    if (begins_with(type, "IDAT") || begins_with(type, "IEND")) {
      if (info.stored.width > 0 && begins_with(type, "IDAT")) return PictureHead{info, at};
      return data_loss("PNG without pixels");
    }
    if (at + kAroundChunk + length > head.size()) break;
    const Bytes chunk = head.subspan(at + 8, length);
    if (begins_with(type, "IHDR")) {
      if (length < 13) return data_loss("PNG with a broken header");
      const std::uint32_t width = number_at(chunk, 0, 4);
      const std::uint32_t height = number_at(chunk, 4, 4);
      if (width == 0 || height == 0 || width > kPictureSideMax || height > kPictureSideMax) {
        return data_loss("PNG of " + std::to_string(width) + " x " + std::to_string(height) +
                         " pixels, expected sides of 1 to " + std::to_string(kPictureSideMax));
      }
      info.stored = {static_cast<int>(width), static_cast<int>(height)};
    } else if (begins_with(type, "eXIf")) {
      info.orientation = tiff_orientation(chunk);
    }
    at += kAroundChunk + length;
  }
  return ends_early("PNG");
}

}  // namespace

Result<PictureHead> read_picture_head(Bytes head) {
  if (head.empty()) return data_loss("an empty file");
  if (head.size() >= 3 && head[0] == 0xFF && head[1] == 0xD8 && head[2] == 0xFF) return read_jpeg(head);
  if (head.size() >= kPngSignature.size() &&
      std::equal(kPngSignature.begin(), kPngSignature.end(), head.begin())) {
    return read_png(head);
  }
  return invalid_argument("neither a JPEG nor a PNG");
}

bool has_end_mark(PictureKind kind, Bytes rest) {
  static constexpr std::array<std::uint8_t, 2> kJpegEnd = {0xFF, 0xD9};
  static constexpr std::array<std::uint8_t, 4> kPngEnd = {'I', 'E', 'N', 'D'};
  const Bytes mark = kind == PictureKind::kJpeg ? Bytes(kJpegEnd) : Bytes(kPngEnd);
  // From the end: there it is in every file that is whole.
  return std::search(rest.rbegin(), rest.rend(), mark.rbegin(), mark.rend()) != rest.rend();
}

// Bytes of the pixels may look like the chunk; but from it chunks lead to the last one.
std::optional<std::uint8_t> orientation_behind(Bytes rest) {
  constexpr std::string_view kType = "eXIf";
  const auto leads_to_the_end = [&](std::size_t at) {
    while (at + kAroundChunk <= rest.size() && !begins_with(rest.subspan(at + 4), "IEND")) {
      at += kAroundChunk + number_at(rest, at, 4);
    }
    return at + kAroundChunk <= rest.size();
  };
  for (auto from = rest.begin();; ++from) {
    from = std::search(from, rest.end(), kType.begin(), kType.end());
    if (from == rest.end()) return std::nullopt;
    const auto type_at = static_cast<std::size_t>(from - rest.begin());
    if (type_at < 4 || !leads_to_the_end(type_at - 4)) continue;
    return tiff_orientation(rest.subspan(type_at + 4, number_at(rest, type_at - 4, 4)));
  }
}

}  // namespace paceline
