// The loops in 256-bit registers: four rows at a time, 32 bytes of a row at a time. Runs only where
// pixel_loops.cc has found AVX2.
#include "worker/images/pixel_loops_avx2.h"

#include <immintrin.h>

#include "worker/images/normalize_loop.h"

namespace paceline::pixels {
namespace {

constexpr int kPixel = 4;  // bytes
constexpr int kHalf = 1 << (kWeightBits - 1);

int smaller(int a, int b) { return a < b ? a : b; }

// Two weights beside each other, for _mm256_madd_epi16.
__m256i pair_at(const std::int16_t* weights) {
  int both = 0;
  __builtin_memcpy(&both, weights, sizeof both);
  return _mm256_set1_epi32(both);
}

// Sixteen bytes of one row and sixteen of another.
__m256i two_rows(const std::uint8_t* one, const std::uint8_t* other) {
  const __m128i low = _mm_loadu_si128(reinterpret_cast<const __m128i*>(one));
  const __m128i high = _mm_loadu_si128(reinterpret_cast<const __m128i*>(other));
  return _mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1);
}

void store_pixel(int pixel, std::uint8_t* out) { __builtin_memcpy(out, &pixel, sizeof pixel); }

// Of four pixels the first two, or the last two, as 16-bit numbers: red red green green blue blue - -.
struct Spread {
  __m256i first;
  __m256i last;
};
Spread spread() {
  const __m128i first = _mm_setr_epi8(0, -1, 4, -1, 1, -1, 5, -1, 2, -1, 6, -1, 3, -1, 7, -1);
  const __m128i last = _mm_setr_epi8(8, -1, 12, -1, 9, -1, 13, -1, 10, -1, 14, -1, 11, -1, 15, -1);
  return {_mm256_broadcastsi128_si256(first), _mm256_broadcastsi128_si256(last)};
}

// Four rows. Pointers and strides by value: what is stored could be taken for the bytes of an argument, which
// would be read again each time.
void columns_of_four(const std::uint8_t* in, const std::size_t in_stride, const Taps by, std::uint8_t* out,
                     const std::size_t out_stride) {
  const Spread mix = spread();
  const std::int16_t* weights = by.weights;
  for (int x = 0; x < by.outputs; ++x, weights += by.taps, out += kPixel) {
    const int start = by.starts[x];
    const int taps = smaller(by.taps, by.inputs - start);
    const std::uint8_t* from = in + std::int64_t{kPixel} * start;
    __m256i sum01 = _mm256_set1_epi32(kHalf);
    __m256i sum23 = sum01;
    int tap = 0;
    for (; tap + 2 < taps; tap += 4, from += 4 * kPixel) {
      const __m256i four01 = two_rows(from, from + in_stride);
      const __m256i four23 = two_rows(from + 2 * in_stride, from + 3 * in_stride);
      const __m256i pair = pair_at(weights + tap);
      const __m256i next = pair_at(weights + tap + 2);
      sum01 = _mm256_add_epi32(sum01, _mm256_madd_epi16(_mm256_shuffle_epi8(four01, mix.first), pair));
      sum23 = _mm256_add_epi32(sum23, _mm256_madd_epi16(_mm256_shuffle_epi8(four23, mix.first), pair));
      sum01 = _mm256_add_epi32(sum01, _mm256_madd_epi16(_mm256_shuffle_epi8(four01, mix.last), next));
      sum23 = _mm256_add_epi32(sum23, _mm256_madd_epi16(_mm256_shuffle_epi8(four23, mix.last), next));
    }
    if (tap < taps) {
      const __m256i two01 = _mm256_shuffle_epi8(two_rows(from, from + in_stride), mix.first);
      const __m256i two23 =
          _mm256_shuffle_epi8(two_rows(from + 2 * in_stride, from + 3 * in_stride), mix.first);
      const __m256i pair = pair_at(weights + tap);
      sum01 = _mm256_add_epi32(sum01, _mm256_madd_epi16(two01, pair));
      sum23 = _mm256_add_epi32(sum23, _mm256_madd_epi16(two23, pair));
    }
    const __m256i words =
        _mm256_packs_epi32(_mm256_srai_epi32(sum01, kWeightBits), _mm256_srai_epi32(sum23, kWeightBits));
    const __m256i bytes = _mm256_packus_epi16(words, words);
    const __m128i of02 = _mm256_castsi256_si128(bytes);
    const __m128i of13 = _mm256_extracti128_si256(bytes, 1);
    store_pixel(_mm_cvtsi128_si32(of02), out);
    store_pixel(_mm_cvtsi128_si32(of13), out + out_stride);
    store_pixel(_mm_extract_epi32(of02, 1), out + 2 * out_stride);
    store_pixel(_mm_extract_epi32(of13, 1), out + 3 * out_stride);
  }
}

// The last four may overlap those before; of fewer rows each is made as if it were four.
void columns(const RowsIn& in, const Taps& by, const RowsOut& out) {
  const auto from = [&](int y) { return in.first + static_cast<std::size_t>(y) * in.stride; };
  const auto to = [&](int y) { return out.first + static_cast<std::size_t>(y) * out.stride; };
  if (in.count < 4) {
    for (int y = 0; y < in.count; ++y) columns_of_four(from(y), 0, by, to(y), 0);
    return;
  }
  for (int y = 0; y < in.count; y += 4) {
    const int first = smaller(y, in.count - 4);
    columns_of_four(from(first), in.stride, by, to(first), out.stride);
  }
}

// The last bytes may reach into the next row, or 32 after the last.
void row(const RowsIn& in, const Taps& by, int output, std::size_t bytes, std::uint8_t* out) {
  constexpr std::size_t kLanes = 32;  // bytes
  const __m256i zero = _mm256_setzero_si256();
  const std::int16_t* const weights = by.weights + std::int64_t{by.taps} * output;
  const int taps = smaller(by.taps, by.inputs - by.starts[output]);
  const std::uint8_t* const first = in.first + static_cast<std::size_t>(by.starts[output]) * in.stride;
  for (std::size_t at = 0; at < bytes; at += kLanes) {
    __m256i sums[4];
    for (__m256i& sum : sums) sum = _mm256_set1_epi32(kHalf);
    const std::uint8_t* from = first + at;
    for (int tap = 0; tap < taps; tap += 2, from += 2 * in.stride) {
      const __m256i one = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
      const __m256i other =
          tap + 1 < taps ? _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + in.stride)) : zero;
      const __m256i pair = pair_at(weights + tap);
      const __m256i low = _mm256_unpacklo_epi8(one, other);
      const __m256i high = _mm256_unpackhi_epi8(one, other);
      const __m256i mixed[4] = {_mm256_unpacklo_epi8(low, zero), _mm256_unpackhi_epi8(low, zero),
                                _mm256_unpacklo_epi8(high, zero), _mm256_unpackhi_epi8(high, zero)};
      for (int i = 0; i < 4; ++i) sums[i] = _mm256_add_epi32(sums[i], _mm256_madd_epi16(mixed[i], pair));
    }
    for (__m256i& sum : sums) sum = _mm256_srai_epi32(sum, kWeightBits);
    const __m256i done =
        _mm256_packus_epi16(_mm256_packs_epi32(sums[0], sums[1]), _mm256_packs_epi32(sums[2], sums[3]));
    if (bytes - at >= kLanes) {
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + at), done);
    } else {
      alignas(kLanes) std::uint8_t whole[kLanes];
      _mm256_store_si256(reinterpret_cast<__m256i*>(whole), done);
      __builtin_memcpy(out + at, whole, bytes - at);
    }
  }
}

}  // namespace

constinit const Loops kAvx2Loops = {"avx2", columns, row, normalize};

}  // namespace paceline::pixels
