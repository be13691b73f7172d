// JPEG and PNG files made with their libraries, for tests: of any kind that a camera or a program writes.
#pragma once

#include <jpeglib.h>
#include <png.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "common/random.h"

namespace paceline {

using Encoded = std::vector<std::uint8_t>;

// Luma is sampled `across` x `down` for each chroma sample: 2 x 2 is 4:2:0, 1 x 2 is 4:4:0, 4 x 1 is 4:1:1.
struct JpegKind {
  int across = 2;
  int down = 2;
  J_COLOR_SPACE colours = JCS_YCbCr;  // as stored: JCS_GRAYSCALE, JCS_RGB, JCS_CMYK, JCS_YCCK
  bool is_progressive = false;
  std::vector<jpeg_scan_info> scans{};  // progressive: others than the usual ones
  int quality = 90;
  int orientation = 0;  // Exif's; 0: no Exif
};

// Smooth colours with noise over them, so that neighbouring columns and rows differ: `channels` bytes a pixel.
inline std::vector<std::uint8_t> some_pixels(int width, int height, int channels, std::uint64_t seed = 1) {
  CounterRandom random(seed, Stream::kTest);
  std::vector<std::uint8_t> pixels;
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      for (int c = 0; c < channels; ++c) {
        const int smooth = (x * (5 + c) + y * (3 + 2 * c)) % 256;
        pixels.push_back(static_cast<std::uint8_t>((smooth + static_cast<int>(random.next_below(96))) % 256));
      }
    }
  }
  return pixels;
}

// An APP1 segment that says only how the camera was held.
inline Encoded exif_of(int orientation) {
  return {'E', 'x',  'i',  'f', 0,
          0,   'I',  'I',  42,  0,
          8,   0,    0,    0,   1,
          0,   0x12, 0x01, 3,   0,
          1,   0,    0,    0,   static_cast<std::uint8_t>(orientation),
          0,   0,    0,    0,   0,
          0,   0};
}

// `pixels`: of as many channels as colours: 1, 3 or 4.
inline Encoded jpeg_of(int width, int height, const std::vector<std::uint8_t>& pixels, const JpegKind& kind) {
  jpeg_compress_struct jpeg{};
  jpeg_error_mgr errors{};
  jpeg.err = jpeg_std_error(&errors);
  jpeg_create_compress(&jpeg);
  unsigned char* memory = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&jpeg, &memory, &size);
  const bool is_grey = kind.colours == JCS_GRAYSCALE;
  const bool has_black = kind.colours == JCS_CMYK || kind.colours == JCS_YCCK;
  jpeg.image_width = static_cast<JDIMENSION>(width);
  jpeg.image_height = static_cast<JDIMENSION>(height);
  jpeg.input_components = is_grey ? 1 : has_black ? 4 : 3;
  jpeg.in_color_space = is_grey ? JCS_GRAYSCALE : has_black ? JCS_CMYK : JCS_RGB;
  jpeg_set_defaults(&jpeg);
  jpeg_set_colorspace(&jpeg, kind.colours);
  jpeg_set_quality(&jpeg, kind.quality, TRUE);
  if (kind.colours == JCS_YCbCr || kind.colours == JCS_YCCK) {
    jpeg.comp_info[0].h_samp_factor = kind.across;
    jpeg.comp_info[0].v_samp_factor = kind.down;
  }
  if (kind.is_progressive) jpeg_simple_progression(&jpeg);
  if (!kind.scans.empty()) {
    jpeg.scan_info = kind.scans.data();
    jpeg.num_scans = static_cast<int>(kind.scans.size());
  }
  jpeg_start_compress(&jpeg, TRUE);
  if (kind.orientation != 0) {
    const Encoded exif = exif_of(kind.orientation);
    jpeg_write_marker(&jpeg, JPEG_APP0 + 1, exif.data(), static_cast<unsigned>(exif.size()));
  }
  while (jpeg.next_scanline < jpeg.image_height) {
    auto* row = const_cast<std::uint8_t*>(pixels.data()) +
                std::size_t{jpeg.next_scanline} * static_cast<std::size_t>(width * jpeg.input_components);
    jpeg_write_scanlines(&jpeg, &row, 1);
  }
  jpeg_finish_compress(&jpeg);
  Encoded encoded(memory, memory + size);
  std::free(memory);
  jpeg_destroy_compress(&jpeg);
  return encoded;
}

inline Encoded some_jpeg(int width, int height, const JpegKind& kind = {}, std::uint64_t seed = 1) {
  const int channels = kind.colours == JCS_GRAYSCALE                          ? 1
                       : kind.colours == JCS_CMYK || kind.colours == JCS_YCCK ? 4
                                                                              : 3;
  return jpeg_of(width, height, some_pixels(width, height, channels, seed), kind);
}

// `colours`: PNG_COLOR_TYPE_*; `rows`: of width x channels samples of `depth` bits, packed as PNG packs them,
// each row beginning at a byte.
struct PngKind {
  int depth = 8;
  int colours = PNG_COLOR_TYPE_RGB;
  bool is_interlaced = false;
  std::vector<png_color> palette{};
};
inline Encoded png_of(int width, int height, const std::vector<std::uint8_t>& rows,
                      const PngKind& kind = {}) {
  Encoded encoded;
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png_create_info_struct(png);
  png_set_write_fn(
      png, &encoded,
      [](png_structp to, png_bytep bytes, std::size_t size) {
        auto& out = *static_cast<Encoded*>(png_get_io_ptr(to));
        out.insert(out.end(), bytes, bytes + size);
      },
      nullptr);
  png_set_IHDR(png, info, static_cast<png_uint_32>(width), static_cast<png_uint_32>(height), kind.depth,
               kind.colours, kind.is_interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE,
               PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  if (!kind.palette.empty())
    png_set_PLTE(png, info, kind.palette.data(), static_cast<int>(kind.palette.size()));
  png_write_info(png, info);
  std::vector<std::uint8_t*> pointers;
  const std::size_t row_bytes = rows.size() / static_cast<std::size_t>(height);
  for (int y = 0; y < height; ++y) {
    pointers.push_back(const_cast<std::uint8_t*>(rows.data()) + static_cast<std::size_t>(y) * row_bytes);
  }
  png_write_image(png, pointers.data());
  png_write_end(png, nullptr);
  png_destroy_write_struct(&png, &info);
  return encoded;
}

}  // namespace paceline
