// The arithmetic of the kernels that are our own: one struct for each, whose call operator does the work of
// one index. launch.h runs them, on a GPU for all indices at once (kernels.cu), in the tests one after
// another (tests/fake_cuda): it is the same code. Convolutions and matrix products are the libraries'.
//
// T is what activations are stored as (narrow.h), or float. Arithmetic is in float, sums of many in double.
// ReLU is here rather than cuDNN's because what becomes of a NaN is the reference back end's rule, and
// cuDNN's is not written down.
//
// Indices are 32 bits: the program refuses a tensor of more elements (program.cc).
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "common/host_device.h"
#include "worker/model/cuda/bias_relu.h"
#include "worker/model/cuda/narrow.h"
#include "worker/model/cuda/pool_bodies.h"
#include "worker/model/cuda/render.h"
#include "worker/model/cuda/sum_bodies.h"
#include "worker/model/cuda/vectors.h"
#include "worker/model/dropout.h"
#include "worker/model/loss_row.h"

namespace paceline::cuda {

// Bias and ReLU in place. Elements are samples x channels x plane. An index is a vector of them (vectors.h),
// as with the two below.
template <typename T>
struct AddBias {
  BiasRelu<T> ahead;
  int plane;  // height x width
  int elements;
  T* values;

  PACELINE_HOST_DEVICE void operator()(int i) const {
    if (plane % kVectorSize<T> == 0) {  // all of one channel
      const float bias = ahead.bias_of(plane_of(i * kVectorSize<T>));
      map_vector(i, elements, [&](int, T value) { return ahead(value, bias); }, values, values);
    } else {
      map_vector(
          i, elements, [&](int j, T value) { return ahead(value, ahead.bias_of(plane_of(j))); }, values,
          values);
    }
  }
  PACELINE_HOST_DEVICE int plane_of(int j) const {
    return static_cast<int>(static_cast<unsigned>(j) / static_cast<unsigned>(plane));
  }
};

template <typename T>
struct ReluForward {
  const T* in;
  T* out;
  int elements;

  PACELINE_HOST_DEVICE void operator()(int i) const {
    const auto relu = [](int, T value) {
      return static_cast<float>(value) < 0.0F ? static_cast<T>(0.0F) : value;
    };
    map_vector(i, elements, relu, out, in);
  }
};

// What came out is above 0 just where what went in was. In place or not.
template <typename T>
struct ReluBackward {
  const T* out;
  const T* out_difference;
  T* in_difference;
  int elements;

  PACELINE_HOST_DEVICE void operator()(int i) const {
    const auto mask = [](int, T value, T difference) {
      return static_cast<float>(value) > 0.0F ? difference : static_cast<T>(0.0F);
    };
    map_vector(i, elements, mask, in_difference, out, out_difference);
  }
};

// to = a x first + b x second; then a ReLU, if there is one. In place or not. An index is a vector.
template <typename T>
struct WeightedSum {
  const T* first;
  float a;
  const T* second;  // null: there is none
  float b;
  bool relu;
  int elements;
  T* to;

  PACELINE_HOST_DEVICE void operator()(int i) const {
    const auto kept = [this](float sum) {
      return static_cast<T>(relu && sum < 0.0F ? 0.0F : sum);  // a NaN stays one
    };
    if (second == nullptr) {
      map_vector(i, elements, [&](int, T x) { return kept(a * static_cast<float>(x)); }, to, first);
    } else {
      map_vector(
          i, elements,
          [&](int, T x, T y) { return kept(a * static_cast<float>(x) + b * static_cast<float>(y)); }, to,
          first, second);
    }
  }
};

// Four elements of one sample, as one block of its random numbers serves them: to = from x mask. The mask is
// not kept but drawn again in the backward pass. In place or not.
template <typename T>
struct ApplyDropout {
  DropoutRule rule;
  std::uint64_t seed;
  std::size_t layer_index;
  const std::int64_t* epochs;  // of each sample
  const std::int64_t* sample_ids;
  int elements;  // per sample
  const T* from;
  T* to;

  PACELINE_HOST_DEVICE int quads() const { return (elements + 3) / 4; }  // indices per sample
  PACELINE_HOST_DEVICE void operator()(int i) const {
    const int sample = i / quads();
    const int quad = i % quads();
    const auto numbers =
        dropout_numbers(seed, epochs[sample], sample_ids[sample], layer_index).block_at(quad);
    for (int j = 0; j < smaller(4, elements - 4 * quad); ++j) {
      const std::ptrdiff_t at = std::ptrdiff_t{sample} * elements + 4 * quad + j;
      to[at] = static_cast<T>(static_cast<float>(from[at]) * rule.factor(numbers[j]));
    }
  }
};

// One sample's loss. A row that only fills the mini-batch up has no label, and sends nothing back.
template <typename T>
struct SoftmaxLoss {
  const T* logits;
  const Label* labels;
  int classes;
  int samples;  // rows from here on fill up
  double smoothing;
  const float* scale;  // times the difference; null: 1
  double* losses;
  std::int32_t* correct;
  T* difference;  // null: not wanted

  PACELINE_HOST_DEVICE void operator()(int i) const {
    const std::ptrdiff_t first = std::ptrdiff_t{i} * classes;
    if (i < samples) {
      const double share = (scale == nullptr ? 1.0 : double{*scale}) / samples;
      const RowLoss row = softmax_row<T>(logits + first, labels[i], classes, smoothing, share,
                                         difference == nullptr ? nullptr : difference + first);
      losses[i] = row.loss;
      correct[i] = row.correct ? 1 : 0;
    } else if (difference != nullptr) {
      for (int k = 0; k < classes; ++k) difference[first + k] = static_cast<T>(0.0F);
    }
  }
};

template <typename From, typename To>
struct Convert {
  const From* from;
  To* to;

  PACELINE_HOST_DEVICE void operator()(int i) const { to[i] = static_cast<To>(static_cast<float>(from[i])); }
};

// What loss scaling has made too large, as it was (worker/model/loss_scaler.h). Who finds one that is not finite says
// so, all of them the same.
struct Unscale {
  float* gradient;
  const float* inverse;  // of the scale
  std::int32_t* overflowed;

  PACELINE_HOST_DEVICE void operator()(int i) const {
    const float value = gradient[i] * *inverse;
    gradient[i] = value;
    if (!std::isfinite(value)) *overflowed = 1;
  }
};

// Every body that launch.h runs: X(type).
#define PACELINE_CUDA_BODIES_OF(X, T) \
  X(AddBias<T>)                       \
  X(ReluForward<T>)                   \
  X(ReluBackward<T>)                  \
  X(ApplyDropout<T>)                  \
  X(WeightedSum<T>)                   \
  X(SoftmaxLoss<T>)
#define PACELINE_CUDA_NARROW_BODIES_OF(X, T) \
  PACELINE_CUDA_BODIES_OF(X, T)              \
  X(Narrow<T>)                               \
  X(Widen<T>)
#define PACELINE_CUDA_BODIES(X)               \
  PACELINE_CUDA_BODIES_OF(X, float)           \
  PACELINE_CUDA_NARROW_BODIES_OF(X, Bfloat16) \
  PACELINE_CUDA_NARROW_BODIES_OF(X, Float16)  \
  X(RenderSamples)                            \
  X(Unscale)
template <typename T>
using Narrow = Convert<float, T>;
template <typename T>
using Widen = Convert<T, float>;

}  // namespace paceline::cuda
