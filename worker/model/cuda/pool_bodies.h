// The kernels of a max-pool. Bodies as in bodies.h. The values that it looks at may be a trained layer's
// products, which bias and ReLU are then applied to as they are read: these, four times as many as come out
// of 2 x 2 windows, are never written.
//
// For each output is kept where in its window the largest value was, the first of equals, counted along rows.
//
// They are here rather than cuDNN's because what goes back at a tie, and what becomes of a NaN, is the
// reference back end's rule, and cuDNN's is not written down.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/host_device.h"
#include "worker/model/cuda/bias_relu.h"
#include "worker/model/cuda/narrow.h"
#include "worker/model/cuda/vectors.h"
#include "worker/model/cuda/windows.h"

namespace paceline::cuda {

// One output element of any windows.
template <typename T>
struct PoolForward {
  WindowShape shape;
  BiasRelu<T> ahead;
  const T* in;
  T* out;
  std::int32_t* positions;

  PACELINE_HOST_DEVICE void operator()(int i) const {
    const int plane = i / (shape.out_height * shape.out_width);
    const int top = i / shape.out_width % shape.out_height * shape.stride - shape.padding;
    const int left = i % shape.out_width * shape.stride - shape.padding;
    const T* from = in + std::ptrdiff_t{plane} * shape.in_height * shape.in_width;
    const float bias = ahead.bias_of(plane);
    int position = -1;
    T best{};
    for (int y = larger(0, top); y < smaller(shape.in_height, top + shape.kernel); ++y) {
      for (int x = larger(0, left); x < smaller(shape.in_width, left + shape.kernel); ++x) {
        const T value = ahead(from[y * shape.in_width + x], bias);
        if (position >= 0 && !(static_cast<float>(value) > static_cast<float>(best))) continue;
        position = (y - top) * shape.kernel + x - left;
        best = value;
      }
    }
    positions[i] = position;
    out[i] = best;
  }
};

// One input element: the sum of what comes back from the windows whose largest it was. Gathered rather than
// scattered, so that windows that overlap need no atomic addition, and the same bits come out each time.
template <typename T>
struct PoolBackward {
  WindowShape shape;
  const T* out_difference;
  const std::int32_t* positions;
  T* in_difference;

  PACELINE_HOST_DEVICE void operator()(int i) const {
    const int in_plane = shape.in_height * shape.in_width;
    const int at = i % in_plane;
    const int y = at / shape.in_width + shape.padding;
    const int x = at % shape.in_width + shape.padding;
    const std::ptrdiff_t from = std::ptrdiff_t{i / in_plane} * shape.out_height * shape.out_width;
    float sum = 0.0F;
    for (int v = shape.first_window(y); v <= shape.last_window(y, shape.out_height); ++v) {
      for (int u = shape.first_window(x); u <= shape.last_window(x, shape.out_width); ++u) {
        const std::ptrdiff_t window = from + v * shape.out_width + u;
        const int position = (y - v * shape.stride) * shape.kernel + x - u * shape.stride;
        if (positions[window] == position) sum += static_cast<float>(out_difference[window]);
      }
    }
    in_difference[i] = static_cast<T>(sum);
  }
};

// Four outputs side by side of 2 x 2 windows that lie side by side and cover their input: what they look at
// is two pieces of two rows, which are read and written whole.
constexpr int kQuad = 4;

inline bool are_quads(const WindowShape& shape) {
  return shape.kernel == 2 && shape.stride == 2 && shape.padding == 0 &&
         shape.in_height == 2 * shape.out_height && shape.in_width == 2 * shape.out_width &&
         shape.out_width % kQuad == 0;
}

// Rows are counted through all planes: output row r looks at input rows 2r and 2r + 1.
template <typename T>
struct PoolQuadForward {
  int out_height;
  int out_width;
  BiasRelu<T> ahead;
  const T* in;
  T* out;
  std::uint8_t* positions;

  PACELINE_HOST_DEVICE void operator()(int i) const {
    const unsigned first = static_cast<unsigned>(i) * kQuad;
    const unsigned row = first / static_cast<unsigned>(out_width);
    // Of the input, rows and columns are twice as many.
    const T* const from = in + 2 * (std::ptrdiff_t{first} + std::ptrdiff_t{row} * out_width);
    const auto upper = load_vector<T, 2 * kQuad>(from);
    const auto lower = load_vector<T, 2 * kQuad>(from + 2 * out_width);
    const float bias = ahead.bias_of(static_cast<int>(row / static_cast<unsigned>(out_height)));
    Vector<T, kQuad> largest;
    Vector<std::uint8_t, kQuad> where;
    for (int j = 0; j < kQuad; ++j) {
      const T window[] = {upper.at[2 * j], upper.at[2 * j + 1], lower.at[2 * j], lower.at[2 * j + 1]};
      T best = ahead(window[0], bias);
      std::uint8_t position = 0;
      for (int k = 1; k < 4; ++k) {
        const T value = ahead(window[k], bias);
        if (!(static_cast<float>(value) > static_cast<float>(best))) continue;
        best = value;
        position = static_cast<std::uint8_t>(k);
      }
      largest.at[j] = best;
      where.at[j] = position;
    }
    store_vector(out + first, largest);
    store_vector(positions + first, where);
  }
};

template <typename T>
struct PoolQuadBackward {
  int out_width;
  const T* out_difference;
  const std::uint8_t* positions;
  T* in_difference;

  PACELINE_HOST_DEVICE void operator()(int i) const {
    const unsigned first = static_cast<unsigned>(i) * kQuad;
    const unsigned row = first / static_cast<unsigned>(out_width);
    T* const to = in_difference + 2 * (std::ptrdiff_t{first} + std::ptrdiff_t{row} * out_width);
    const auto difference = load_vector<T, kQuad>(out_difference + first);
    const auto where = load_vector<std::uint8_t, kQuad>(positions + first);
    const auto zero = static_cast<T>(0.0F);
    Vector<T, 2 * kQuad> upper;
    Vector<T, 2 * kQuad> lower;
    for (int j = 0; j < kQuad; ++j) {
      for (int side = 0; side < 2; ++side) {
        upper.at[2 * j + side] = where.at[j] == side ? difference.at[j] : zero;
        lower.at[2 * j + side] = where.at[j] == 2 + side ? difference.at[j] : zero;
      }
    }
    store_vector(to, upper);
    store_vector(to + 2 * out_width, lower);
  }
};

// As PACELINE_CUDA_BODIES (bodies.h).
#define PACELINE_CUDA_POOL_BODIES_OF(X, T) \
  X(PoolForward<T>)                        \
  X(PoolBackward<T>)                       \
  X(PoolQuadForward<T>)                    \
  X(PoolQuadBackward<T>)
#define PACELINE_CUDA_POOL_BODIES(X)        \
  PACELINE_CUDA_POOL_BODIES_OF(X, float)    \
  PACELINE_CUDA_POOL_BODIES_OF(X, Bfloat16) \
  PACELINE_CUDA_POOL_BODIES_OF(X, Float16)

}  // namespace paceline::cuda
