// The plain loops, and those in the 128-bit registers that every x86-64 processor has.
#include "worker/images/pixel_loops.h"

#include <algorithm>
#include <cstring>

#include "worker/data/augmentation.h"
#include "worker/images/normalize_loop.h"
#include "worker/images/pixel_loops_avx2.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace paceline::pixels {
namespace {

constexpr std::size_t kPixel = 4;  // bytes
constexpr int kHalf = 1 << (kWeightBits - 1);

// The inputs of an output that have weights; the rest of its taps may lie behind the picture's edge.
int taps_used(const Taps& by, int output) { return std::min(by.taps, by.inputs - by.starts[output]); }

const std::int16_t* weights_of(const Taps& by, int output) {
  return by.weights + static_cast<std::size_t>(output) * static_cast<std::size_t>(by.taps);
}

const std::uint8_t* row_of(const RowsIn& in, int y) {
  return in.first + static_cast<std::size_t>(y) * in.stride;
}

void columns_reference(const RowsIn& in, const Taps& by, const RowsOut& out) {
  for (int y = 0; y < in.count; ++y) {
    std::uint8_t* to = out.first + static_cast<std::size_t>(y) * out.stride;
    for (int x = 0; x < by.outputs; ++x) {
      const std::uint8_t* const from = row_of(in, y) + static_cast<std::size_t>(by.starts[x]) * kPixel;
      for (std::size_t byte = 0; byte < kPixel; ++byte) {
        int sum = kHalf;
        for (int tap = 0; tap < taps_used(by, x); ++tap) {
          sum += weights_of(by, x)[tap] * from[static_cast<std::size_t>(tap) * kPixel + byte];
        }
        *to++ = static_cast<std::uint8_t>(sum >> kWeightBits);
      }
    }
  }
}

void row_reference(const RowsIn& in, const Taps& by, int output, std::size_t bytes, std::uint8_t* out) {
  for (std::size_t byte = 0; byte < bytes; ++byte) {
    int sum = kHalf;
    for (int tap = 0; tap < taps_used(by, output); ++tap) {
      sum += weights_of(by, output)[tap] * row_of(in, by.starts[output] + tap)[byte];
    }
    out[byte] = static_cast<std::uint8_t>(sum >> kWeightBits);
  }
}

void normalize_reference(const std::uint8_t* pixels, int count, const float* mean, const float* scale,
                         bool is_mirrored, const PlanesOut& out) {
  float* const planes[3] = {out.red, out.green, out.blue};
  for (std::size_t colour = 0; colour < 3; ++colour) {
    for (int x = 0; x < count; ++x) {
      const std::uint8_t pixel = pixels[static_cast<std::size_t>(x) * kPixel + colour];
      planes[colour][is_mirrored ? count - 1 - x : x] = normalized(pixel, mean[colour], scale[colour]);
    }
  }
}

constexpr Loops kReference = {"reference", columns_reference, row_reference, normalize_reference};

#if defined(__SSE2__)
// Two weights beside each other, for _mm_madd_epi16.
__m128i pair_at(const std::int16_t* weights) {
  int both = 0;
  std::memcpy(&both, weights, sizeof both);
  return _mm_set1_epi32(both);
}

// The last pair may read a pixel after the row, with the weight 0.
void columns_sse2(const RowsIn& in, const Taps& by, const RowsOut& out) {
  const __m128i zero = _mm_setzero_si128();
  for (int y = 0; y < in.count; ++y) {
    std::uint8_t* to = out.first + static_cast<std::size_t>(y) * out.stride;
    for (int x = 0; x < by.outputs; ++x, to += kPixel) {
      const std::int16_t* const weights = weights_of(by, x);
      const std::uint8_t* const from = row_of(in, y) + static_cast<std::size_t>(by.starts[x]) * kPixel;
      const int taps = taps_used(by, x);
      __m128i sum = _mm_set1_epi32(kHalf);
      for (int tap = 0; tap < taps; tap += 2) {
        const __m128i two =
            _mm_loadl_epi64(reinterpret_cast<const __m128i*>(from + static_cast<std::size_t>(tap) * kPixel));
        const __m128i mixed = _mm_unpacklo_epi8(two, _mm_srli_si128(two, 4));  // r0 r1 g0 g1 b0 b1 - -
        sum = _mm_add_epi32(sum, _mm_madd_epi16(_mm_unpacklo_epi8(mixed, zero), pair_at(weights + tap)));
      }
      const __m128i words = _mm_packs_epi32(_mm_srai_epi32(sum, kWeightBits), zero);
      const int pixel = _mm_cvtsi128_si32(_mm_packus_epi16(words, zero));
      std::memcpy(to, &pixel, sizeof pixel);
    }
  }
}

void row_sse2(const RowsIn& in, const Taps& by, int output, std::size_t bytes, std::uint8_t* out) {
  const __m128i zero = _mm_setzero_si128();
  const std::int16_t* const weights = weights_of(by, output);
  const int taps = taps_used(by, output);
  constexpr std::size_t kLanes = 16;  // bytes; the last ones may reach into the next row, or after the last
  for (std::size_t at = 0; at < bytes; at += kLanes) {
    __m128i sums[4];
    for (__m128i& sum : sums) sum = _mm_set1_epi32(kHalf);
    for (int tap = 0; tap < taps; tap += 2) {
      const auto load = [&](int input) {
        return _mm_loadu_si128(reinterpret_cast<const __m128i*>(row_of(in, by.starts[output] + input) + at));
      };
      const __m128i one = load(tap);
      const __m128i other = tap + 1 < taps ? load(tap + 1) : zero;
      const __m128i pair = pair_at(weights + tap);
      const __m128i low = _mm_unpacklo_epi8(one, other);
      const __m128i high = _mm_unpackhi_epi8(one, other);
      const __m128i mixed[4] = {_mm_unpacklo_epi8(low, zero), _mm_unpackhi_epi8(low, zero),
                                _mm_unpacklo_epi8(high, zero), _mm_unpackhi_epi8(high, zero)};
      for (int i = 0; i < 4; ++i) sums[i] = _mm_add_epi32(sums[i], _mm_madd_epi16(mixed[i], pair));
    }
    for (__m128i& sum : sums) sum = _mm_srai_epi32(sum, kWeightBits);
    const __m128i done =
        _mm_packus_epi16(_mm_packs_epi32(sums[0], sums[1]), _mm_packs_epi32(sums[2], sums[3]));
    alignas(kLanes) std::uint8_t whole[kLanes];
    _mm_store_si128(reinterpret_cast<__m128i*>(whole), done);
    std::memcpy(out + at, whole, std::min(kLanes, bytes - at));
  }
}
constexpr Loops kBaseline = {"sse2", columns_sse2, row_sse2, normalize};
#else
constexpr Loops kBaseline = {"plain", columns_reference, row_reference, normalize};
#endif

}  // namespace

const Loops& reference() { return kReference; }

std::vector<const Loops*> available() {
  std::vector<const Loops*> found = {&kReference, &kBaseline};
#ifdef PACELINE_X86_PIXELS
  // What it affirms, the processor has and the operating system has switched on.
  if (__builtin_cpu_supports("avx2")) found.push_back(&kAvx2Loops);
#endif
  return found;
}

const Loops& best() {
  static const Loops& chosen = *available().back();
  return chosen;
}

}  // namespace paceline::pixels
