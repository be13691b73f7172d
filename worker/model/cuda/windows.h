// Square windows that slide over a plane: a convolution's, or a pool's.
#pragma once

#include "common/host_device.h"
#include "common/network/network.h"

namespace paceline::cuda {

PACELINE_HOST_DEVICE constexpr int larger(int a, int b) { return a > b ? a : b; }
PACELINE_HOST_DEVICE constexpr int smaller(int a, int b) { return a < b ? a : b; }

// One plane's sizes before and after them.
struct WindowShape {
  int in_height;
  int in_width;
  int out_height;
  int out_width;
  int kernel;
  int stride;
  int padding;

  // Windows [first, last] along one axis contain coordinate `at`, counted from the padding's edge.
  PACELINE_HOST_DEVICE int first_window(int at) const {
    const int first = at - kernel + stride;
    return first < 0 ? 0 : first / stride;
  }
  PACELINE_HOST_DEVICE int last_window(int at, int windows) const {
    return smaller(windows - 1, at / stride);
  }
};

inline WindowShape window_shape_of(const Layer& layer) {
  return {static_cast<int>(layer.in.height),  static_cast<int>(layer.in.width),
          static_cast<int>(layer.out.height), static_cast<int>(layer.out.width),
          static_cast<int>(layer.kernel),     static_cast<int>(layer.stride),
          static_cast<int>(layer.padding)};
}

}  // namespace paceline::cuda
