// The reference back end: plain loops in double precision, written to be read and believed. It is what the
// fast back ends are tested against, and itself tested against finite differences
// (tests/unit/model_gradient_test.cc).
#pragma once

#include <cstdint>
#include <memory>

#include "common/status.h"
#include "worker/model/backend.h"

namespace paceline {

// What activations, and what is sent back through them, are kept as between the layers.
//
//   kDouble     as they are computed
//   kBfloat16   rounded to the nearest bfloat16, and so are images and weights: as with train.precision: bf16
//               on a GPU. A layer's products are rounded before its bias is added, and again after it. Sums,
//               biases and gradients of parameters are not rounded. oneDNN rounds after bias and ReLU alone.
//
// Through a ReLU whose input is within bfloat16's rounding of 0 kDouble and a back end in bfloat16 send a
// different gradient, whole or not at all; kBfloat16 and such a back end send the same.
enum class Activations { kDouble, kBfloat16 };

// Parameters and images are widened to double, every sum is double, and the gradient is rounded to float
// once, at the end. Samples are summed in order: the same mini-batch gives the same bits. Memory: in training
// all activations of a mini-batch, in double; in an evaluation those of one sample.
Result<std::unique_ptr<NetworkBackend>> make_reference_backend(NetworkSpec network, std::int64_t batch_size,
                                                               std::uint64_t seed,
                                                               Activations activations = Activations::kDouble,
                                                               NormGroup* norm_group = nullptr);

}  // namespace paceline
