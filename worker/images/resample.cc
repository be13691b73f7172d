#include "worker/images/resample.h"

#include <algorithm>
#include <cmath>
#include <cstring>
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
  std::vector<double> exact;        // the weights of all outputs, one after the other
  std::vector<std::size_t> begins;  // of each output's, and after the last
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

// The inputs that an output reads, those of no weight included.
int inputs_of(const Axis& axis, int output) {
  return std::min(axis.starts[static_cast<std::size_t>(output)] + axis.taps, axis.end - axis.begin);
}

}  // namespace

void Resampler::begin(const Axis& columns, const Axis& rows, const pixels::Loops& with) {
  columns_ = &columns;
  rows_ = &rows;
  loops_ = &with;
  narrowed_.reset(columns.count(), rows.end - rows.begin);
  taken_ = 0;
  next_ = 0;
}

const Picture& Resampler::take(const pixels::RowsIn& inputs) {
  PACELINE_ASSERT(taken_ + inputs.count <= narrowed_.height, std::to_string(taken_) + " + " +
                                                                 std::to_string(inputs.count) + " rows of " +
                                                                 std::to_string(narrowed_.height));
  if (columns_->is_copy()) {
    for (int y = 0; y < inputs.count; ++y) {
      std::memcpy(narrowed_.row(taken_ + y), inputs.first + static_cast<std::size_t>(y) * inputs.stride,
                  narrowed_.row_bytes());
    }
  } else {
    loops_->columns(inputs, taps_of(*columns_), {narrowed_.row(taken_), narrowed_.stride});
  }
  taken_ += inputs.count;
  const int first = next_;
  while (next_ < rows_->count() && inputs_of(*rows_, next_) <= taken_) ++next_;
  made_.reset(columns_->count(), next_ - first);
  const pixels::RowsIn narrowed{narrowed_.row(0), narrowed_.stride, narrowed_.height};
  for (int y = first; y < next_; ++y) {
    loops_->row(narrowed, taps_of(*rows_), y, made_.row_bytes(), made_.row(y - first));
  }
  return made_;
}

void Resampler::release() {
  narrowed_ = Picture();
  made_ = Picture();
}

}  // namespace paceline
