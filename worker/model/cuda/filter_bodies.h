// The kernel of a filter's gradient by unfolding (unfolded_filter.h). A body as in bodies.h.
#pragma once

#include <cstddef>

#include "common/host_device.h"
#include "worker/model/cuda/narrow.h"
#include "worker/model/cuda/windows.h"

namespace paceline::cuda {

// One position of one channel's plane of a sample: what each of the window's places sees there,
//   unfolded[sample][channel, row, column of the window][position of the window]
// Threads side by side are positions side by side, so that what they read and write is, too; where a window
// is takes three divisions, once for all of its places.
template <typename T>
struct Unfold {
  WindowShape shape;
  const T* in;
  T* unfolded;

  PACELINE_HOST_DEVICE void operator()(int i) const {
    const auto plane = static_cast<unsigned>(shape.out_height * shape.out_width);
    const auto width = static_cast<unsigned>(shape.out_width);
    const unsigned image = static_cast<unsigned>(i) / plane;  // sample x channel
    const unsigned position = static_cast<unsigned>(i) - image * plane;
    const unsigned row = position / width;
    const int top = static_cast<int>(row) * shape.stride - shape.padding;
    const int left = static_cast<int>(position - row * width) * shape.stride - shape.padding;
    const T* const from = in + std::ptrdiff_t{image} * shape.in_height * shape.in_width;
    T* to = unfolded + std::ptrdiff_t{image} * shape.kernel * shape.kernel * plane + position;
    for (int y = top; y < top + shape.kernel; ++y) {
      for (int x = left; x < left + shape.kernel; ++x) {
        *to = is_inside(y, shape.in_height) && is_inside(x, shape.in_width) ? from[y * shape.in_width + x]
                                                                            : static_cast<T>(0.0F);
        to += plane;
      }
    }
  }

  PACELINE_HOST_DEVICE static bool is_inside(int at, int size) {
    return static_cast<unsigned>(at) < static_cast<unsigned>(size);
  }
};

// As PACELINE_CUDA_BODIES (bodies.h).
#define PACELINE_CUDA_FILTER_BODIES(X) \
  X(Unfold<float>)                     \
  X(Unfold<Bfloat16>)                  \
  X(Unfold<Float16>)

}  // namespace paceline::cuda
