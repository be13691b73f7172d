// The arithmetic of the kernels that are our own: one struct for each, whose call operator does the work of
// one index. launch.h runs them, on a GPU for all indices at once (kernels.cu), in the tests one after
// another (tests/fake_cuda): it is the same code. Convolutions and matrix products are the libraries'.
//
// T is what activations are stored as: float, or bfloat16. Arithmetic is in float, sums of many in double.
// Pooling and ReLU are here rather than cuDNN's because what goes back at a tie, and what becomes of a NaN,
// is the reference back end's rule, and cuDNN's is not written down.
//
// Indices are 32 bits: the program refuses a tensor of more elements (program.cc).
#pragma once

#include <cuda_bf16.h>

#include <cstddef>
#include <cstdint>

#include "worker/model/dropout.h"
#include "worker/model/host_device.h"
#include "worker/model/loss_row.h"

namespace paceline::cuda {

using Bfloat16 = __nv_bfloat16;

// values[i] += the bias of its channel, and ReLU behind it where `relu` says so. Elements are samples x
// channels x plane.
template <typename T>
struct AddBias {
  T* values;
  const float* bias;
  int channels;
  int plane;  // height x width
  bool relu;

  PACELINE_HOST_DEVICE void operator()(int i) const {
    const float value = static_cast<float>(values[i]) + bias[i / plane % channels];
    values[i] = static_cast<T>(relu && value < 0.0F ? 0.0F : value);  // a NaN stays one
  }
};

template <typename T>
struct ReluForward {
  const T* in;
  T* out;

  PACELINE_HOST_DEVICE void operator()(int i) const {
    const auto value = static_cast<float>(in[i]);
    out[i] = static_cast<T>(value < 0.0F ? 0.0F : value);
  }
};

// What came out is above 0 just where what went in was. In place or not.
template <typename T>
struct ReluBackward {
  const T* out;
  const T* out_difference;
  T* in_difference;

  PACELINE_HOST_DEVICE void operator()(int i) const {
    const bool passed = static_cast<float>(out[i]) > 0.0F;
    in_difference[i] = passed ? out_difference[i] : static_cast<T>(0.0F);
  }
};

// One plane's sizes before and behind a max-pool with a square window.
struct PoolShape {
  int in_height;
  int in_width;
  int out_height;
  int out_width;
  int kernel;
  int stride;
  int padding;
};

PACELINE_HOST_DEVICE constexpr int larger(int a, int b) { return a > b ? a : b; }
PACELINE_HOST_DEVICE constexpr int smaller(int a, int b) { return a < b ? a : b; }

// One output element: the largest value of its window, and where in its input plane it was, the first of
// equals.
template <typename T>
struct PoolForward {
  PoolShape shape;
  const T* in;
  T* out;
  std::int32_t* argmax;

  PACELINE_HOST_DEVICE void operator()(int i) const {
    const int plane = i / (shape.out_height * shape.out_width);
    const int top = i / shape.out_width % shape.out_height * shape.stride - shape.padding;
    const int left = i % shape.out_width * shape.stride - shape.padding;
    const T* from = in + std::ptrdiff_t{plane} * shape.in_height * shape.in_width;
    int best = -1;
    for (int y = larger(0, top); y < smaller(shape.in_height, top + shape.kernel); ++y) {
      for (int x = larger(0, left); x < smaller(shape.in_width, left + shape.kernel); ++x) {
        const int at = y * shape.in_width + x;
        if (best < 0 || static_cast<float>(from[at]) > static_cast<float>(from[best])) best = at;
      }
    }
    argmax[i] = best;
    out[i] = from[best];
  }
};

// One input element: the sum of what comes back from the windows whose largest it was. Gathered rather than
// scattered, so that windows that overlap need no atomic addition, and the same bits come out each time.
template <typename T>
struct PoolBackward {
  PoolShape shape;
  const T* out_difference;
  const std::int32_t* argmax;
  T* in_difference;

  // Windows [first, last] along one axis contain coordinate `at`.
  PACELINE_HOST_DEVICE int first_window(int at) const {
    const int first = at + shape.padding - shape.kernel + shape.stride;
    return first < 0 ? 0 : first / shape.stride;
  }
  PACELINE_HOST_DEVICE int last_window(int at, int windows) const {
    return smaller(windows - 1, (at + shape.padding) / shape.stride);
  }
  PACELINE_HOST_DEVICE void operator()(int i) const {
    const int in_plane = shape.in_height * shape.in_width;
    const int at = i % in_plane;
    const int y = at / shape.in_width;
    const int x = at % shape.in_width;
    const std::ptrdiff_t from = std::ptrdiff_t{i / in_plane} * shape.out_height * shape.out_width;
    float sum = 0.0F;
    for (int v = first_window(y); v <= last_window(y, shape.out_height); ++v) {
      for (int u = first_window(x); u <= last_window(x, shape.out_width); ++u) {
        const std::ptrdiff_t window = from + v * shape.out_width + u;
        if (argmax[window] == at) sum += static_cast<float>(out_difference[window]);
      }
    }
    in_difference[i] = static_cast<T>(sum);
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
  const std::uint8_t* labels;
  int classes;
  int samples;  // rows from here on fill up
  double* losses;
  std::int32_t* correct;
  T* difference;  // null: not wanted

  PACELINE_HOST_DEVICE void operator()(int i) const {
    const std::ptrdiff_t first = std::ptrdiff_t{i} * classes;
    if (i < samples) {
      const RowLoss row = softmax_row<T>(logits + first, labels[i], classes, 1.0 / samples,
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

// A bias's gradient: sums[c] = the sum of channel c over all samples and its plane. `part` is what one of
// `parts` threads adds up of it.
template <typename T>
struct ChannelSums {
  const T* values;
  int samples;
  int channels;
  int plane;
  float* sums;

  PACELINE_HOST_DEVICE double part(int channel, int index, int parts) const {
    double sum = 0.0;
    for (int j = index; j < samples * plane; j += parts) {
      const std::ptrdiff_t row = std::ptrdiff_t{j / plane} * channels + channel;
      sum += static_cast<double>(static_cast<float>(values[row * plane + j % plane]));
    }
    return sum;
  }
};

// Every body that launch.h runs: X(type).
#define PACELINE_CUDA_BODIES_OF(X, T) \
  X(AddBias<T>)                       \
  X(ReluForward<T>)                   \
  X(ReluBackward<T>)                  \
  X(PoolForward<T>)                   \
  X(PoolBackward<T>)                  \
  X(ApplyDropout<T>)                  \
  X(SoftmaxLoss<T>)
#define PACELINE_CUDA_BODIES(X)        \
  PACELINE_CUDA_BODIES_OF(X, float)    \
  PACELINE_CUDA_BODIES_OF(X, Bfloat16) \
  X(ToBfloat16)                        \
  X(FromBfloat16)
using ToBfloat16 = Convert<float, Bfloat16>;
using FromBfloat16 = Convert<Bfloat16, float>;

}  // namespace paceline::cuda
