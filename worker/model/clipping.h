// Gradients with a bounded norm (Pascanu et al., "On the difficulty of training recurrent neural networks", 2013;
// Caffe's clip_gradients): one whose L2 norm is above the bound is scaled down to it. What is not trained does not
// count: buffers, and tensors with a learning rate factor of 0. Buffers are not scaled either.
#pragma once

#include <optional>

#include "worker/model/backend.h"

namespace paceline {

// Back ends that clip what `make`'s give, a mini-batch's gradient each; `make` itself where there is no bound (above
// 0). Nothing of a gradient is final before the whole is.
MakeBackend clipping(MakeBackend make, std::optional<double> bound);

}  // namespace paceline
