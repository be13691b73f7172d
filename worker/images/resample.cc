#include "worker/images/resample.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <string>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "common/assert.h"

namespace paceline {
namespace {

constexpr int kOne = 1 << Axis::kWeightBits;
constexpr int kHalf = kOne / 2;

// The weights of one output, in whole numbers of which the sum is kOne: one colour stays that colour.
void to_whole(const std::vector<double>& exact, std::int16_t* weights) {
  const double sum = std::accumulate(exact.begin(), exact.end(), 0.0);
  int left = kOne;
  std::size_t largest = 0;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    weights[i] = static_cast<std::int16_t>(std::lround(exact[i] / sum * kOne));
    left -= weights[i];
    if (exact[i] > exact[largest]) largest = i;
  }
  weights[largest] = static_cast<std::int16_t>(weights[largest] + left);
}

}  // namespace

Axis Axis::make(double offset, double length, int from, int to, int first, int count) {
  PACELINE_ASSERT(from > 0 && to > 0 && first >= 0 && count > 0 && first + count <= to,
                  std::to_string(first) + " + " + std::to_string(count) + " of " + std::to_string(to));
  const double scale = length / to;
  const double reach = std::max(scale, 1.0);
  std::vector<std::vector<double>> exact(static_cast<std::size_t>(count));
  Axis axis;
  for (int i = 0; i < count; ++i) {
    const double centre = offset + (first + i + 0.5) * scale;
    const int low = std::clamp(static_cast<int>(centre - reach + 0.5), 0, from - 1);
    const int high = std::clamp(static_cast<int>(centre + reach + 0.5), low + 1, from);
    auto& weights = exact[static_cast<std::size_t>(i)];
    for (int input = low; input < high; ++input) {
      weights.push_back(std::max(0.0, 1.0 - std::abs((input - centre + 0.5) / reach)));
    }
    // Where rounding left nothing of the triangle, the nearest.
    if (std::accumulate(weights.begin(), weights.end(), 0.0) <= 0.0) weights.front() = 1.0;
    // Inputs without a weight need not be decoded.
    int begin = low;
    while (weights.front() <= 0.0) {
      weights.erase(weights.begin());
      ++begin;
    }
    while (weights.back() <= 0.0) weights.pop_back();
    axis.starts.push_back(begin);
    axis.taps = std::max(axis.taps, static_cast<int>(weights.size()));
    axis.end = std::max(axis.end, begin + static_cast<int>(weights.size()));
  }
  axis.begin = *std::min_element(axis.starts.begin(), axis.starts.end());
  axis.taps += axis.taps % 2;
  axis.weights.assign(static_cast<std::size_t>(count) * static_cast<std::size_t>(axis.taps), 0);
  for (int i = 0; i < count; ++i) {
    const auto k = static_cast<std::size_t>(i);
    axis.starts[k] -= axis.begin;
    to_whole(exact[k], axis.weights.data() + k * static_cast<std::size_t>(axis.taps));
  }
  return axis;
}

bool Axis::is_copy() const {
  if (end - begin != count()) return false;
  for (int i = 0; i < count(); ++i) {
    const auto k = static_cast<std::size_t>(i);
    if (starts[k] != i || weights[k * static_cast<std::size_t>(taps)] != kOne) return false;
  }
  return true;
}

namespace {

// The inputs of an output that have weights; the rest of its taps may lie behind the picture's last row.
int taps_used(const Axis& axis, int output) {
  return std::min(axis.taps, axis.end - axis.begin - axis.starts[static_cast<std::size_t>(output)]);
}

const std::int16_t* weights_of(const Axis& axis, int output) {
  return axis.weights.data() + static_cast<std::size_t>(output) * static_cast<std::size_t>(axis.taps);
}

void columns_reference(const std::uint8_t* in, const Axis& columns, std::uint8_t* out) {
  for (int x = 0; x < columns.count(); ++x, out += Picture::kBytesPerPixel) {
    const std::int16_t* const weights = weights_of(columns, x);
    const std::uint8_t* const first =
        in + static_cast<std::size_t>(columns.starts[static_cast<std::size_t>(x)]) * Picture::kBytesPerPixel;
    const int taps = taps_used(columns, x);
    for (std::size_t byte = 0; byte < Picture::kBytesPerPixel; ++byte) {
      int sum = kHalf;
      for (int tap = 0; tap < taps; ++tap) {
        sum += weights[tap] * first[static_cast<std::size_t>(tap) * Picture::kBytesPerPixel + byte];
      }
      out[byte] = static_cast<std::uint8_t>(sum >> Axis::kWeightBits);
    }
  }
}

void row_reference(const Picture& in, const Axis& rows, int y, std::uint8_t* out) {
  const std::int16_t* const weights = weights_of(rows, y);
  const int taps = taps_used(rows, y);
  const int first = rows.starts[static_cast<std::size_t>(y)];
  for (std::size_t byte = 0; byte < in.row_bytes(); ++byte) {
    int sum = kHalf;
    for (int tap = 0; tap < taps; ++tap) sum += weights[tap] * in.row(first + tap)[byte];
    out[byte] = static_cast<std::uint8_t>(sum >> Axis::kWeightBits);
  }
}

#if defined(__SSE2__)
// Two weights beside each other, for _mm_madd_epi16.
__m128i pair_at(const std::int16_t* weights) {
  int both = 0;
  std::memcpy(&both, weights, sizeof both);
  return _mm_set1_epi32(both);
}

// The last pair may read a pixel behind the row, with the weight 0 (Picture::kReadBeyond).
void columns_fast(const std::uint8_t* in, const Axis& columns, std::uint8_t* out) {
  const __m128i zero = _mm_setzero_si128();
  for (int x = 0; x < columns.count(); ++x, out += Picture::kBytesPerPixel) {
    const std::int16_t* const weights = weights_of(columns, x);
    const std::uint8_t* const first =
        in + static_cast<std::size_t>(columns.starts[static_cast<std::size_t>(x)]) * Picture::kBytesPerPixel;
    const int taps = taps_used(columns, x);
    __m128i sum = _mm_set1_epi32(kHalf);
    for (int tap = 0; tap < taps; tap += 2) {
      const __m128i two = _mm_loadl_epi64(
          reinterpret_cast<const __m128i*>(first + static_cast<std::size_t>(tap) * Picture::kBytesPerPixel));
      const __m128i mixed = _mm_unpacklo_epi8(two, _mm_srli_si128(two, 4));  // r0 r1 g0 g1 b0 b1 - -
      sum = _mm_add_epi32(sum, _mm_madd_epi16(_mm_unpacklo_epi8(mixed, zero), pair_at(weights + tap)));
    }
    const __m128i words = _mm_packs_epi32(_mm_srai_epi32(sum, Axis::kWeightBits), zero);
    const int pixel = _mm_cvtsi128_si32(_mm_packus_epi16(words, zero));
    std::memcpy(out, &pixel, sizeof pixel);
  }
}

void row_fast(const Picture& in, const Axis& rows, int y, std::uint8_t* out) {
  const __m128i zero = _mm_setzero_si128();
  const std::int16_t* const weights = weights_of(rows, y);
  const int taps = taps_used(rows, y);
  const int first = rows.starts[static_cast<std::size_t>(y)];
  const std::size_t size = in.row_bytes();
  constexpr std::size_t kLanes = 16;  // bytes; the last ones may reach into the next row, or kReadBeyond
  for (std::size_t at = 0; at < size; at += kLanes) {
    __m128i sums[4];
    for (__m128i& sum : sums) sum = _mm_set1_epi32(kHalf);
    for (int tap = 0; tap < taps; tap += 2) {
      const auto load = [&](int row) {
        return _mm_loadu_si128(reinterpret_cast<const __m128i*>(in.row(row) + at));
      };
      const __m128i one = load(first + tap);
      const __m128i other = tap + 1 < taps ? load(first + tap + 1) : zero;
      const __m128i pair = pair_at(weights + tap);
      const __m128i low = _mm_unpacklo_epi8(one, other);
      const __m128i high = _mm_unpackhi_epi8(one, other);
      const __m128i mixed[4] = {_mm_unpacklo_epi8(low, zero), _mm_unpackhi_epi8(low, zero),
                                _mm_unpacklo_epi8(high, zero), _mm_unpackhi_epi8(high, zero)};
      for (int i = 0; i < 4; ++i) sums[i] = _mm_add_epi32(sums[i], _mm_madd_epi16(mixed[i], pair));
    }
    for (__m128i& sum : sums) sum = _mm_srai_epi32(sum, Axis::kWeightBits);
    const __m128i bytes =
        _mm_packus_epi16(_mm_packs_epi32(sums[0], sums[1]), _mm_packs_epi32(sums[2], sums[3]));
    alignas(16) std::uint8_t whole[kLanes];
    _mm_store_si128(reinterpret_cast<__m128i*>(whole), bytes);
    std::memcpy(out + at, whole, std::min(kLanes, size - at));
  }
}
#else
void columns_fast(const std::uint8_t* in, const Axis& columns, std::uint8_t* out) {
  columns_reference(in, columns, out);
}
void row_fast(const Picture& in, const Axis& rows, int y, std::uint8_t* out) {
  row_reference(in, rows, y, out);
}
#endif

using Columns = void(const std::uint8_t*, const Axis&, std::uint8_t*);
using Row = void(const Picture&, const Axis&, int, std::uint8_t*);

void resample_with(Columns& columns_of, Row& row_of, const Picture& in, const Axis& columns, const Axis& rows,
                   Picture& between, Picture& out) {
  PACELINE_ASSERT(in.width == columns.end - columns.begin && in.height == rows.end - rows.begin,
                  std::to_string(in.width) + " x " + std::to_string(in.height));
  const bool as_wide = columns.is_copy();
  if (!as_wide) {
    between.reset(columns.count(), in.height);
    for (int y = 0; y < in.height; ++y) columns_of(in.row(y), columns, between.row(y));
  }
  const Picture& narrowed = as_wide ? in : between;
  out.reset(columns.count(), rows.count());
  for (int y = 0; y < out.height; ++y) row_of(narrowed, rows, y, out.row(y));
}

}  // namespace

void resample(const Picture& in, const Axis& columns, const Axis& rows, Picture& between, Picture& out) {
  resample_with(columns_fast, row_fast, in, columns, rows, between, out);
}

void resample_reference(const Picture& in, const Axis& columns, const Axis& rows, Picture& between,
                        Picture& out) {
  resample_with(columns_reference, row_reference, in, columns, rows, between, out);
}

}  // namespace paceline
