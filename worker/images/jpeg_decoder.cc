// libjpeg-turbo behind jpeg_decoder.h. It reports errors by longjmp, so no function between setjmp and the
// library has an object with a destructor.
#include "worker/images/jpeg_decoder.h"

#include <algorithm>
#include <csetjmp>
#include <cstdio>
#include <string>
#include <vector>

#include "common/assert.h"

// They need <cstdio> and do not include it.
#include <jpeglib.h>
// In this order.
#include <jerror.h>

namespace paceline {
namespace {

// The library would go on after any other warning with pixels that it made up: grey for those that are
// missing.
bool is_harmless(int warning) {
  return warning == JWRN_ADOBE_XFORM || warning == JWRN_EXTRANEOUS_DATA || warning == JWRN_JFIF_MAJOR ||
         warning == JWRN_TOO_MUCH_DATA;
}

// Inverted CMYK, as Adobe writes it, to RGB as Pillow does it: each colour is what the ink leaves of what the
// black leaves.
void rgb_of_cmyk(const std::uint8_t* cmyk, int pixels, std::uint8_t* out) {
  for (int i = 0; i < pixels; ++i, cmyk += 4, out += Picture::kBytesPerPixel) {
    const int left = cmyk[3];
    for (int colour = 0; colour < 3; ++colour) {
      const int taken = (255 - cmyk[colour]) * left + 128;
      out[colour] = static_cast<std::uint8_t>(std::max(0, left - (((taken >> 8) + taken) >> 8)));
    }
  }
}

}  // namespace

struct JpegDecoder::State {
  jpeg_decompress_struct jpeg{};
  jpeg_error_mgr errors{};
  std::jmp_buf on_error{};
  char message[JMSG_LENGTH_MAX] = {};
  jpeg_progress_mgr progress{};
  std::vector<std::uint8_t> row;  // one that is not the picture's: outside of the part, or CMYK

  static State& of(j_common_ptr jpeg) { return *static_cast<State*>(jpeg->client_data); }
  [[noreturn]] static void fail(j_common_ptr jpeg) {
    jpeg->err->format_message(jpeg, of(jpeg).message);
    std::longjmp(of(jpeg).on_error, 1);
  }
  static void warn(j_common_ptr jpeg, int level) {
    if (level < 0 && !is_harmless(jpeg->err->msg_code)) fail(jpeg);
  }
  static void ignore_message(j_common_ptr) {}
  // A few kilobytes can hold thousands of scans, each of which goes over all coefficients.
  static void count_scans(j_common_ptr jpeg) {
    if (reinterpret_cast<j_decompress_ptr>(jpeg)->input_scan_number <= kScansMax) return;
    std::snprintf(of(jpeg).message, sizeof of(jpeg).message, "more than %d scans", kScansMax);
    std::longjmp(of(jpeg).on_error, 1);
  }

  enum class Outcome { kDone, kOtherSize, kFailed };
  Outcome begin(std::span<const std::uint8_t> file, const PictureInfo& info, int shrink);
  Outcome read(const PictureRect& part, DecodeMode mode, Picture& picture, int rows_at_a_time,
               const OnRows& on_rows);
  bool is_cmyk() const { return jpeg.out_color_space == JCS_CMYK; }
};

JpegDecoder::JpegDecoder() : state_(std::make_unique<State>()) {
  State& state = *state_;
  state.jpeg.err = jpeg_std_error(&state.errors);
  state.errors.error_exit = State::fail;
  state.errors.emit_message = State::warn;
  state.errors.output_message = State::ignore_message;
  state.jpeg.client_data = &state;
  const bool failed = setjmp(state.on_error) != 0;
  PACELINE_ASSERT(!failed, state.message);  // a libjpeg of another version than its header
  jpeg_create_decompress(&state.jpeg);
  state.jpeg.client_data = &state;  // which that has cleared
  state.progress.progress_monitor = State::count_scans;
  state.jpeg.progress = &state.progress;
}

std::size_t JpegDecoder::bytes() const { return state_->row.capacity(); }
void JpegDecoder::release() { std::vector<std::uint8_t>().swap(state_->row); }

JpegDecoder::~JpegDecoder() { jpeg_destroy_decompress(&state_->jpeg); }

JpegDecoder::State::Outcome JpegDecoder::State::begin(std::span<const std::uint8_t> file,
                                                      const PictureInfo& info, int shrink) {
  if (setjmp(on_error) != 0) return Outcome::kFailed;
  jpeg_mem_src(&jpeg, file.data(), static_cast<unsigned long>(file.size()));
  jpeg_read_header(&jpeg, TRUE);
  const auto is = [](JDIMENSION side, int expected) { return side == static_cast<JDIMENSION>(expected); };
  if (!is(jpeg.image_width, info.stored.width) || !is(jpeg.image_height, info.stored.height)) {
    return Outcome::kOtherSize;
  }
  const bool has_black = jpeg.jpeg_color_space == JCS_CMYK || jpeg.jpeg_color_space == JCS_YCCK;
  jpeg.out_color_space = has_black ? JCS_CMYK : JCS_EXT_RGBX;
  jpeg.dct_method = JDCT_ISLOW;
  jpeg.do_fancy_upsampling = TRUE;
  // The coefficients of a progressive one: 2 bytes for each pixel and colour, in whole groups of blocks.
  const auto padded = [](int side) { return static_cast<long>(side) + 31; };
  jpeg.mem->max_memory_to_use = (long{1} << 20) + 16 * padded(info.stored.width) * padded(info.stored.height);
  jpeg.scale_num = 1;
  jpeg.scale_denom = static_cast<unsigned>(shrink);
  jpeg_start_decompress(&jpeg);
  return Outcome::kDone;
}

JpegDecoder::State::Outcome JpegDecoder::State::read(const PictureRect& part, DecodeMode mode,
                                                     Picture& picture, int rows_at_a_time,
                                                     const OnRows& on_rows) {
  if (setjmp(on_error) != 0) return Outcome::kFailed;
  JDIMENSION left = 0;  // of the columns that are decoded
  const auto width = static_cast<JDIMENSION>(part.width);
  const auto x = static_cast<JDIMENSION>(part.x);
  if (mode == DecodeMode::kFused && width < jpeg.output_width) {
    // A colour is filled in from the next stored one, which is max_h_samp_factor columns away.
    const auto margin = static_cast<JDIMENSION>(jpeg.max_h_samp_factor);
    left = x > margin ? x - margin : 0;
    JDIMENSION decoded = std::min(x + width + margin, jpeg.output_width) - left;
    jpeg_crop_scanline(&jpeg, &left, &decoded);
  }
  const auto top = static_cast<JDIMENSION>(part.y);
  const JDIMENSION bottom = top + static_cast<JDIMENSION>(part.height);
  const int held = std::min(rows_at_a_time, part.height);
  const bool is_straight = !is_cmyk();
  if (is_straight) {
    picture.reset(part.width, held, static_cast<int>(jpeg.output_width), static_cast<int>(x - left));
  } else {
    picture.reset(part.width, held);
  }
  row.resize(std::size_t{jpeg.output_width} * Picture::kBytesPerPixel);
  if (mode == DecodeMode::kFused && top > 0) jpeg_skip_scanlines(&jpeg, top);
  const JDIMENSION end = mode == DecodeMode::kFused ? bottom : jpeg.output_height;
  while (jpeg.output_scanline < end) {
    const JDIMENSION line = jpeg.output_scanline;
    const bool is_inside = line >= top && line < bottom;
    const int y = is_inside ? static_cast<int>(line - top) : 0;
    const int place = y % held;
    JSAMPROW target = is_straight && is_inside ? picture.whole_row(place) : row.data();
    jpeg_read_scanlines(&jpeg, &target, 1);
    if (!is_inside) continue;
    if (!is_straight) {
      rgb_of_cmyk(row.data() + std::size_t{x - left} * Picture::kBytesPerPixel, part.width,
                  picture.row(place));
    }
    const bool is_full = place + 1 == held || y + 1 == part.height;
    if (is_full && on_rows != nullptr) on_rows({picture.row(0), picture.stride, place + 1});
  }
  return Outcome::kDone;
}

Status JpegDecoder::decode(std::span<const std::uint8_t> file, const PictureInfo& info,
                           const PictureRect& part, DecodeMode mode, int shrink, Picture& picture,
                           int rows_at_a_time, const OnRows& on_rows) {
  State& state = *state_;
  State::Outcome outcome = state.begin(file, info, shrink);
  if (outcome == State::Outcome::kDone) {
    const auto fits = [](int at, int length, JDIMENSION side) {
      return at >= 0 && length > 0 && static_cast<JDIMENSION>(at + length) <= side;
    };
    PACELINE_ASSERT(fits(part.x, part.width, state.jpeg.output_width) &&
                        fits(part.y, part.height, state.jpeg.output_height),
                    "a part outside of the picture");
    outcome = state.read(part, mode, picture, rows_at_a_time, on_rows);
  }
  jpeg_abort_decompress(&state.jpeg);  // rows below the part are not read
  if (outcome == State::Outcome::kFailed) return data_loss(std::string("broken JPEG: ") + state.message);
  if (outcome == State::Outcome::kOtherSize) {
    return data_loss(
        "JPEG of another size than when it was indexed: " + std::to_string(state.jpeg.image_width) + " x " +
        std::to_string(state.jpeg.image_height) + ", expected " + std::to_string(info.stored.width) + " x " +
        std::to_string(info.stored.height));
  }
  return Status::ok();
}

}  // namespace paceline
