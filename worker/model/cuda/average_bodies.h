// The kernels of average pools. Bodies as in bodies.h.
//
// They are here rather than cuDNN's because what a window at the edge is divided by is Caffe's rule
// (worker/model/layers/average_pool/divisor.h), which cuDNN has only where no window hangs over.
#pragma once

#include <cstddef>

#include "common/host_device.h"
#include "worker/model/cuda/narrow.h"
#include "worker/model/cuda/sum_bodies.h"
#include "worker/model/cuda/windows.h"

namespace paceline::cuda {

// Places of window `at` along one axis that lie in the padded image.
PACELINE_HOST_DEVICE inline int window_length(const WindowShape& shape, int at, int in_size) {
  const int begin = at * shape.stride - shape.padding;
  return smaller(begin + shape.kernel, in_size + shape.padding) - begin;
}
// What the window at this row and column of the output is divided by.
PACELINE_HOST_DEVICE inline float window_divisor(const WindowShape& shape, int row, int column) {
  return static_cast<float>(window_length(shape, row, shape.in_height) *
                            window_length(shape, column, shape.in_width));
}

// One output element.
template <typename T>
struct AverageForward {
  WindowShape shape;
  const T* in;
  T* out;

  PACELINE_HOST_DEVICE void operator()(int i) const {
    const int plane = i / (shape.out_height * shape.out_width);
    const int row = i / shape.out_width % shape.out_height;
    const int column = i % shape.out_width;
    const int top = row * shape.stride - shape.padding;
    const int left = column * shape.stride - shape.padding;
    const T* from = in + std::ptrdiff_t{plane} * shape.in_height * shape.in_width;
    float sum = 0.0F;
    for (int y = larger(0, top); y < smaller(shape.in_height, top + shape.kernel); ++y) {
      for (int x = larger(0, left); x < smaller(shape.in_width, left + shape.kernel); ++x) {
        sum += static_cast<float>(from[y * shape.in_width + x]);
      }
    }
    out[i] = static_cast<T>(sum / window_divisor(shape, row, column));
  }
};

// One input element: the sum of its shares of the windows that see it. Gathered, as PoolBackward.
template <typename T>
struct AverageBackward {
  WindowShape shape;
  const T* out_difference;
  T* in_difference;

  PACELINE_HOST_DEVICE void operator()(int i) const {
    const int in_plane = shape.in_height * shape.in_width;
    const int at = i % in_plane;
    const int y = at / shape.in_width + shape.padding;
    const int x = at % shape.in_width + shape.padding;
    const T* from = out_difference + std::ptrdiff_t{i / in_plane} * shape.out_height * shape.out_width;
    float sum = 0.0F;
    for (int v = shape.first_window(y); v <= shape.last_window(y, shape.out_height); ++v) {
      for (int u = shape.first_window(x); u <= shape.last_window(x, shape.out_width); ++u) {
        sum += static_cast<float>(from[v * shape.out_width + u]) / window_divisor(shape, v, u);
      }
    }
    in_difference[i] = static_cast<T>(sum);
  }
};

// The mean of one plane.
template <typename T>
struct PlaneMean {
  int plane;  // height x width
  const T* in;
  T* out;

  PACELINE_HOST_DEVICE void operator()(int i) const {
    const T* const from = in + std::ptrdiff_t{i} * plane;
    double sum = 0.0;
    for (int j = 0; j < plane; ++j) sum += widened(from[j]);
    out[i] = static_cast<T>(static_cast<float>(sum / plane));
  }
};

// One input element.
template <typename T>
struct PlaneMeanBackward {
  int plane;
  const T* out_difference;
  T* in_difference;

  PACELINE_HOST_DEVICE void operator()(int i) const {
    in_difference[i] =
        static_cast<T>(static_cast<float>(out_difference[i / plane]) / static_cast<float>(plane));
  }
};

// As PACELINE_CUDA_BODIES (bodies.h).
#define PACELINE_CUDA_AVERAGE_BODIES_OF(X, T) \
  X(AverageForward<T>)                        \
  X(AverageBackward<T>)                       \
  X(PlaneMean<T>)                             \
  X(PlaneMeanBackward<T>)
#define PACELINE_CUDA_AVERAGE_BODIES(X)        \
  PACELINE_CUDA_AVERAGE_BODIES_OF(X, float)    \
  PACELINE_CUDA_AVERAGE_BODIES_OF(X, Bfloat16) \
  PACELINE_CUDA_AVERAGE_BODIES_OF(X, Float16)

}  // namespace paceline::cuda
