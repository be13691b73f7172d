#include "worker/images/resample.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>
#include <string>

#include "common/assert.h"

namespace paceline {
namespace {

constexpr int kOne = 1 << Axis::kWeightBits;

// The weights of one output, in whole numbers of which the sum is kOne: one colour stays that colour.
void to_whole(std::span<const double> exact, std::int16_t* weights) {
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
  std::vector<double> exact;        // the weights of all outputs, one behind the other
  std::vector<std::size_t> begins;  // of each output's, and behind the last
  exact.reserve(static_cast<std::size_t>(count * (2 * reach + 2)));
  begins.reserve(static_cast<std::size_t>(count) + 1);
  Axis axis;
  axis.starts.reserve(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) {
    const double centre = offset + (first + i + 0.5) * scale;
    const int low = std::clamp(static_cast<int>(centre - reach + 0.5), 0, from - 1);
    const int high = std::clamp(static_cast<int>(centre + reach + 0.5), low + 1, from);
    begins.push_back(exact.size());
    int begin = low;
    // Inputs without a weight need not be decoded; they lie at the ends.
    for (int input = low; input < high; ++input) {
      const double weight = 1.0 - std::abs((input - centre + 0.5) / reach);
      if (weight <= 0.0) continue;
      if (exact.size() == begins.back()) begin = input;
      exact.push_back(weight);
    }
    // Where rounding left nothing of the triangle, the nearest.
    if (exact.size() == begins.back()) exact.push_back(1.0);
    const auto taps = static_cast<int>(exact.size() - begins.back());
    axis.starts.push_back(begin);
    axis.taps = std::max(axis.taps, taps);
    axis.end = std::max(axis.end, begin + taps);
  }
  begins.push_back(exact.size());
  axis.begin = *std::min_element(axis.starts.begin(), axis.starts.end());
  axis.taps += axis.taps % 2;
  axis.weights.assign(static_cast<std::size_t>(count) * static_cast<std::size_t>(axis.taps), 0);
  for (std::size_t k = 0; k < axis.starts.size(); ++k) {
    axis.starts[k] -= axis.begin;
    to_whole(std::span(exact).subspan(begins[k], begins[k + 1] - begins[k]),
             axis.weights.data() + k * static_cast<std::size_t>(axis.taps));
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

pixels::Taps taps_of(const Axis& axis) {
  return {axis.starts.data(), axis.weights.data(), axis.taps, axis.count(), axis.end - axis.begin};
}

pixels::RowsIn rows_of(const Picture& picture) { return {picture.row(0), picture.stride, picture.height}; }

}  // namespace

void resample(const Picture& in, const Axis& columns, const Axis& rows, Picture& between, Picture& out,
              const pixels::Loops& with) {
  PACELINE_ASSERT(in.width == columns.end - columns.begin && in.height == rows.end - rows.begin,
                  std::to_string(in.width) + " x " + std::to_string(in.height));
  const bool as_wide = columns.is_copy();
  if (!as_wide) {
    between.reset(columns.count(), in.height);
    with.columns(rows_of(in), taps_of(columns), {between.row(0), between.stride});
  }
  const Picture& narrowed = as_wide ? in : between;
  out.reset(columns.count(), rows.count());
  const pixels::Taps by = taps_of(rows);
  for (int y = 0; y < out.height; ++y) with.row(rows_of(narrowed), by, y, out.row_bytes(), out.row(y));
}

}  // namespace paceline
