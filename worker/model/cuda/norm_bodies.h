// The kernels of a batch norm (worker/model/layers/batch_norm/reference.cc has the formulas). Bodies as in
// bodies.h; NormMoments and NormGradient are added up as ChannelSums is (sum_bodies.h).
//
// They are here rather than cuDNN's because sums are then always in the same order, in double, and over the samples
// that count alone: what only fills a mini-batch up comes out as 0, and nothing goes back to it.
//
// A variance is made of the sums of x - p and of its square, p being the channel's first value: in one pass, and
// without losing digits where the mean is far from 0 (Chan, Golub and LeVeque 1983, section 3).
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "common/host_device.h"
#include "worker/model/cuda/narrow.h"
#include "worker/model/cuda/sum_bodies.h"
#include "worker/model/cuda/vectors.h"

namespace paceline::cuda {

// What a batch norm goes by, `channels` each.
struct NormStatistics {
  float* mean;
  float* variance;  // of the mini-batch alone: divided by its values
  float* inverse;   // 1 / sqrt(variance + epsilon)
};

struct TwoSums {
  double first;
  double second;

  PACELINE_HOST_DEVICE TwoSums& operator+=(const TwoSums& other) {
    first += other.first;
    second += other.second;
    return *this;
  }
};

// The mini-batch's own mean and variance.
template <typename T>
struct NormMoments {
  using Sum = TwoSums;

  const T* values;
  PlanesOfChannels shape;
  double epsilon;
  TwoSums* group_sums;
  NormStatistics statistics;

  PACELINE_HOST_DEVICE double pivot(int channel) const {
    return widened(values[std::ptrdiff_t{channel} * shape.plane]);
  }
  PACELINE_HOST_DEVICE TwoSums part(int channel, int index, int parts) const {
    TwoSums sums{0.0, 0.0};
    const double from = pivot(channel);
    shape.for_each_part<T>(channel, index, parts, [&](std::ptrdiff_t at, auto size) {
      constexpr int kSize = decltype(size)::value;
      const auto vector = load_vector<T, kSize>(values + at);
      for (int k = 0; k < kSize; ++k) {
        const double apart = widened(vector.at[k]) - from;
        sums += TwoSums{apart, apart * apart};
      }
    });
    return sums;
  }
  PACELINE_HOST_DEVICE void finish(int channel, const TwoSums& sums) const {
    const double apart = sums.first / shape.values();
    const double squares = sums.second / shape.values() - apart * apart;
    const double variance = squares < 0.0 ? 0.0 : squares;  // a NaN stays one
    statistics.mean[channel] = static_cast<float>(pivot(channel) + apart);
    statistics.variance[channel] = static_cast<float>(variance);
    statistics.inverse[channel] = static_cast<float>(1.0 / std::sqrt(variance + epsilon));
  }
};

// The running mean and variance of a channel, debiased where they have a weight, into the places of the above.
struct NormRunning {
  const float* mean;
  const float* variance;
  const float* weight;  // null: there is none
  double epsilon;
  NormStatistics statistics;

  PACELINE_HOST_DEVICE void operator()(int channel) const {
    const float sum = weight == nullptr ? 1.0F : *weight;
    statistics.mean[channel] = sum == 0.0F ? 0.0F : mean[channel] / sum;
    const float squares = sum == 0.0F ? 0.0F : variance[channel] / sum;
    statistics.inverse[channel] = static_cast<float>(1.0 / std::sqrt(double{squares} + epsilon));
  }
};

// out = gamma z + beta, with z = (x - mean) x inverse; then a ReLU, if there is one. An index is a vector, as with
// the next. From element `end` on only what fills the mini-batch up.
template <typename T>
struct NormForward {
  const T* in;
  T* out;
  PlanesOfChannels shape;
  NormStatistics statistics;
  const float* gamma;  // null: 1
  const float* beta;   // null: 0
  bool relu;
  int elements;
  int end;

  PACELINE_HOST_DEVICE void operator()(int i) const {
    shape.map_by_channel(i, elements, [this](int j, int c, T x) { return normal(j, c, x); }, out, in);
  }

 private:
  PACELINE_HOST_DEVICE T normal(int j, int c, T x) const {
    if (j >= end) return static_cast<T>(0.0F);
    float value = (static_cast<float>(x) - statistics.mean[c]) * statistics.inverse[c];
    if (gamma != nullptr) value = value * gamma[c] + beta[c];
    return static_cast<T>(relu && value < 0.0F ? 0.0F : value);  // a NaN stays one
  }
};

// d(beta) = sum d(out), d(gamma) = sum d(out) z; what the mini-batch's statistics owe to each x; and what was
// measured, into the gradient. A ReLU's mask is applied first, and what is left is written, too.
template <typename T>
struct NormGradient {
  using Sum = TwoSums;

  const T* relu_out;  // what came out of the ReLU; null: there is none
  T* out_difference;
  const T* in;
  PlanesOfChannels shape;
  TwoSums* group_sums;
  NormStatistics statistics;
  double values;   // that they are of, of a channel
  double owed_by;  // so many; 1: sums are wanted, for others (norm_exchange.h)
  float* beta;     // both null: it has neither
  float* gamma;
  float* owed_first;   // sum d(out) / owed_by
  float* owed_second;  // sum d(out) z / owed_by
  float* running_mean;
  float* running_variance;
  float* running_weight;  // null: there is none

  PACELINE_HOST_DEVICE TwoSums part(int channel, int index, int parts) const {
    TwoSums sums{0.0, 0.0};
    const double mean = statistics.mean[channel];
    shape.for_each_part<T>(channel, index, parts, [&](std::ptrdiff_t at, auto size) {
      constexpr int kSize = decltype(size)::value;
      const auto difference = relu_out == nullptr ? load_vector<T, kSize>(out_difference + at)
                                                  : masked_in_place<T, kSize>(relu_out, out_difference, at);
      const auto x = load_vector<T, kSize>(in + at);
      for (int k = 0; k < kSize; ++k) {
        const double d = widened(difference.at[k]);
        sums += TwoSums{d, d * (widened(x.at[k]) - mean)};
      }
    });
    return sums;
  }
  PACELINE_HOST_DEVICE void finish(int channel, const TwoSums& sums) const {
    const double by_z = sums.second * statistics.inverse[channel];
    if (beta != nullptr) {
      beta[channel] = static_cast<float>(sums.first);
      gamma[channel] = static_cast<float>(by_z);
    }
    owed_first[channel] = static_cast<float>(sums.first / owed_by);
    owed_second[channel] = static_cast<float>(by_z / owed_by);
    running_mean[channel] = statistics.mean[channel];
    running_variance[channel] = static_cast<float>(statistics.variance[channel] * (values / (values - 1.0)));
    if (running_weight != nullptr && channel == 0) *running_weight = 1.0F;
  }
};

// d(x) = gamma x inverse x (d(out) - owed_first - z owed_second). In place or not.
template <typename T>
struct NormBackward {
  const T* in;
  const T* out_difference;
  T* in_difference;
  PlanesOfChannels shape;
  NormStatistics statistics;
  const float* gamma;  // null: 1
  const float* owed_first;
  const float* owed_second;
  int elements;
  int end;

  PACELINE_HOST_DEVICE void operator()(int i) const {
    shape.map_by_channel(
        i, elements, [this](int j, int c, T x, T difference) { return owed(j, c, x, difference); },
        in_difference, in, out_difference);
  }

 private:
  PACELINE_HOST_DEVICE T owed(int j, int c, T x, T difference) const {
    if (j >= end) return static_cast<T>(0.0F);
    const float z = (static_cast<float>(x) - statistics.mean[c]) * statistics.inverse[c];
    const float centred = static_cast<float>(difference) - owed_first[c] - z * owed_second[c];
    return static_cast<T>((gamma == nullptr ? 1.0F : gamma[c]) * statistics.inverse[c] * centred);
  }
};

// As PACELINE_CUDA_BODIES (bodies.h).
#define PACELINE_CUDA_NORM_BODIES_OF(X, T) \
  X(NormForward<T>)                        \
  X(NormBackward<T>)
#define PACELINE_CUDA_NORM_BODIES(X)        \
  PACELINE_CUDA_NORM_BODIES_OF(X, float)    \
  PACELINE_CUDA_NORM_BODIES_OF(X, Bfloat16) \
  PACELINE_CUDA_NORM_BODIES_OF(X, Float16)  \
  X(NormRunning)

}  // namespace paceline::cuda
