// Square windows that slide over a plane: a convolution's, or a max-pool's.
#pragma once

#include "common/network/network.h"

namespace paceline::cuda {

// One plane's sizes before and behind them.
struct WindowShape {
  int in_height;
  int in_width;
  int out_height;
  int out_width;
  int kernel;
  int stride;
  int padding;
};

inline WindowShape window_shape_of(const Layer& layer) {
  return {static_cast<int>(layer.in.height),  static_cast<int>(layer.in.width),
          static_cast<int>(layer.out.height), static_cast<int>(layer.out.width),
          static_cast<int>(layer.kernel),     static_cast<int>(layer.stride),
          static_cast<int>(layer.padding)};
}

}  // namespace paceline::cuda
