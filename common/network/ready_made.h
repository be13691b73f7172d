// The networks that have a name: what `train.model` may be besides `layers`.
//
//   cifar_cnn, cifar_cnn_small   two convolutions, two dense layers
//   resnet20, resnet56           of He, Zhang, Ren and Sun, "Deep residual learning for image recognition",
//                                2016, section 4.2, for 32 x 32 pictures: 3 x n blocks of two 3x3 convolutions
//                                with 16, 32 and 64 channels. Where a block's shape changes its shortcut is a
//                                1x1 convolution with a norm (option B there)
//   resnet50                     section 4.1, for 224 x 224 pictures: bottlenecks, whose stride is in the 3x3
//                                convolution ("v1.5"); PyTorch's names of tensors
//
// The residual ones: every convolution is without a bias and has a batch norm after it; weights begin as He et
// al. draw them (2015, fan-in), those of the last layer N(0, 0.01) (Goyal et al., 2017, section 5.1). Norms and
// biases do not decay.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/config/layer_config.h"

namespace paceline {

// All of them, in the order in which they are listed.
const std::vector<std::string>& ready_made_names();

// Whether it has residual blocks, which may begin as the identity.
bool is_residual(const std::string& name);

// Their layers; nothing for a name that is none of theirs. `dropout`: the rate in front of the last dense
// layer, 0: none. `zero_gamma`: the last norm of each residual block begins with gamma 0 (Goyal et al., 2017,
// section 5.1).
std::optional<std::vector<LayerConfig>> ready_made_network(const std::string& name, std::int64_t classes,
                                                           double dropout, bool zero_gamma = false);

}  // namespace paceline
