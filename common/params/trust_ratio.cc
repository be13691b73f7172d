#include "common/params/trust_ratio.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "common/params/kernels.h"
#include "common/params/step_coefficients.h"

namespace paceline {
namespace {

using Lanes = std::array<double, static_cast<std::size_t>(kernels::kLanes)>;

double sum_of(const Lanes& lanes) {
  double sum = 0.0;
  for (const double lane : lanes) sum += lane;
  return sum;
}

// The floats of `range` in one piece: where they lie, or copied into `scratch`, which has room for them.
template <std::size_t kSize>
const float* together(const FloatsFrom& vector, Range range, std::array<float, kSize>& scratch) {
  const std::span<const float> first = vector(range.begin, range.size());
  if (std::ssize(first) == range.size()) return first.data();
  std::span<const float> piece = first;
  for (std::int64_t at = range.begin;;) {
    std::copy(piece.begin(), piece.end(), scratch.begin() + (at - range.begin));
    at += std::ssize(piece);
    if (at == range.end) return scratch.data();
    piece = vector(at, range.end - at);
  }
}

}  // namespace

FloatsFrom floats_of(std::span<const float> whole) {
  return [whole](std::int64_t offset, std::int64_t n) {
    return whole.subspan(static_cast<std::size_t>(offset), static_cast<std::size_t>(n));
  };
}

void run_in_turn(std::int64_t count, const std::function<void(std::int64_t)>& work) {
  for (std::int64_t i = 0; i < count; ++i) work(i);
}

TrustRatios::TrustRatios(const OptimizerSection& settings, std::int64_t size, const FactorRanges& factors)
    : settings_(settings), ratios_(factors.pieces().size() + 1, 1.0) {
  if (!measures_tensors(settings.kind)) return;
  factors.for_each_numbered({0, size}, [&](Range tensor, const StepFactors& of, std::size_t piece) {
    if (!of.adapts) return;
    for (std::int64_t at = tensor.begin; at < tensor.end; at += kPart) {
      parts_.push_back(
          {{at, std::min(at + kPart, tensor.end)}, piece, settings.weight_decay * of.decay, of.lr});
    }
  });
  sums_.resize(parts_.size());
}

void TrustRatios::measure(const MeasuredVectors& vectors, std::int64_t t, double learning_rate,
                          const RunParts& run) {
  run(std::ssize(parts_), [&](std::int64_t i) {
    const auto at = static_cast<std::size_t>(i);
    sums_[at] = squares_of(parts_[at], vectors, t);
  });
  for (std::size_t i = 0; i < parts_.size();) {
    Squares sums;
    const Part& tensor = parts_[i];
    for (; i < parts_.size() && parts_[i].piece == tensor.piece; ++i) {
      sums.parameters += sums_[i].parameters;
      sums.other += sums_[i].other;
    }
    ratios_[tensor.piece] = ratio(sums, tensor, learning_rate);
  }
}

TrustRatios::Squares TrustRatios::squares_of(const Part& part, const MeasuredVectors& vectors,
                                             std::int64_t t) const {
  const kernels::Kernels& loops = kernels::best();
  std::array<float, kPart> scratch[3];
  const std::int64_t n = part.range.size();
  const float* const parameters = together(vectors.parameters, part.range, scratch[0]);
  Lanes of_parameters{}, of_other{};
  loops.add_squares(of_parameters.data(), parameters, n);
  if (settings_.kind == OptimizerKind::kLars) {
    const float* measured = together(vectors.gradient, part.range, scratch[1]);
    if (settings_.trust_norm == TrustNorm::kWithDecay) {
      const auto decay = static_cast<float>(part.decay);
      std::transform(measured, measured + n, parameters, scratch[2].begin(),
                     [decay](float gradient, float weight) { return gradient + decay * weight; });
      measured = scratch[2].data();
    }
    loops.add_squares(of_other.data(), measured, n);
  } else {
    loops.add_direction_squares(of_other.data(), parameters, together(vectors.first, part.range, scratch[1]),
                                together(vectors.second, part.range, scratch[2]),
                                adam_step(settings_, 1.0, t), static_cast<float>(part.decay), n);
  }
  return {sum_of(of_parameters), sum_of(of_other)};
}

double TrustRatios::ratio(const Squares& sums, const Part& of, double learning_rate) const {
  if (sums.parameters == 0.0 || sums.other == 0.0) return 1.0;
  const double weights = std::sqrt(sums.parameters);
  const double other = std::sqrt(sums.other);
  const double decay = settings_.trust_norm == TrustNorm::kWithDecay ? 0.0 : of.decay * weights;
  const double found = settings_.kind == OptimizerKind::kLars
                           ? settings_.trust_coefficient * weights / (other + decay + settings_.epsilon)
                           : weights / other;
  const double bounded = std::min(found, settings_.trust_ratio_max.value_or(found));
  return settings_.trust_clip ? std::min(bounded / (learning_rate * of.lr), 1.0) : bounded;
}

}  // namespace paceline
