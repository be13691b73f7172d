// libpng behind png_decoder.h. It reports errors by longjmp, so the function around setjmp has no object with
// a destructor.
#include "worker/images/png_decoder.h"

#include <png.h>

#include <algorithm>
#include <csetjmp>
#include <cstddef>
#include <cstring>
#include <string>
#include <vector>

namespace paceline {
namespace {

// What the callbacks share.
struct Reading {
  std::span<const std::uint8_t> rest;
  char message[160] = {};
  std::jmp_buf on_error{};
};

[[noreturn]] void fail(png_structp png, png_const_charp message) {
  auto& reading = *static_cast<Reading*>(png_get_error_ptr(png));
  std::strncpy(reading.message, message, sizeof reading.message - 1);
  std::longjmp(reading.on_error, 1);
}
void ignore(png_structp, png_const_charp) {}

void read(png_structp png, png_bytep out, std::size_t size) {
  auto& reading = *static_cast<Reading*>(png_get_io_ptr(png));
  if (size > reading.rest.size()) png_error(png, "it is cut off");
  std::copy_n(reading.rest.begin(), size, out);
  reading.rest = reading.rest.subspan(size);
}

enum class Outcome { kDone, kOtherSize, kFailed };

// `rows`: room for info.stored.height pointers.
Outcome decode(png_structp png, png_infop header, Reading& reading, const PictureInfo& info, Picture& picture,
               std::uint8_t** rows) {
  if (setjmp(reading.on_error) != 0) return Outcome::kFailed;
  png_set_read_fn(png, &reading, read);
  constexpr png_alloc_size_t kChunkMax = 8 << 20;  // a compressed text may unpack to gigabytes
  png_set_chunk_malloc_max(png, kChunkMax);
  png_read_info(png, header);
  if (png_get_image_width(png, header) != static_cast<png_uint_32>(info.stored.width) ||
      png_get_image_height(png, header) != static_cast<png_uint_32>(info.stored.height)) {
    return Outcome::kOtherSize;
  }
  png_set_palette_to_rgb(png);
  png_set_expand_gray_1_2_4_to_8(png);
  png_set_scale_16(png);
  png_set_gray_to_rgb(png);
  png_set_strip_alpha(png);
  png_set_filler(png, 0xFF, PNG_FILLER_AFTER);
  png_set_interlace_handling(png);
  png_read_update_info(png, header);
  if (png_get_rowbytes(png, header) != picture.row_bytes()) png_error(png, "its rows have another length");
  for (int y = 0; y < picture.height; ++y) rows[y] = picture.row(y);
  png_read_image(png, rows);
  png_read_end(png, nullptr);
  return Outcome::kDone;
}

}  // namespace

Status decode_png(std::span<const std::uint8_t> file, const PictureInfo& info, Picture& picture) {
  Reading reading{.rest = file};
  picture.reset(info.stored.width, info.stored.height);
  std::vector<std::uint8_t*> rows(static_cast<std::size_t>(picture.height));
  png_structp png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &reading, fail, ignore);
  png_infop header = png == nullptr ? nullptr : png_create_info_struct(png);
  if (header == nullptr) {
    png_destroy_read_struct(&png, nullptr, nullptr);
    return resource_exhausted("no memory for libpng");
  }
  const Outcome outcome = decode(png, header, reading, info, picture, rows.data());
  png_destroy_read_struct(&png, &header, nullptr);
  if (outcome == Outcome::kFailed) return data_loss(std::string("broken PNG: ") + reading.message);
  if (outcome == Outcome::kOtherSize) return data_loss("PNG of another size than when it was indexed");
  return Status::ok();
}

}  // namespace paceline
