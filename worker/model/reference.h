// The reference back end: plain loops in double precision, written to be read and believed. It is what the
// fast back ends are tested against, and itself tested against finite differences
// (tests/unit/model_gradient_test.cc).
#pragma once

#include <cstdint>
#include <memory>

#include "common/status.h"
#include "worker/model/backend.h"

namespace paceline {

// Parameters and images are widened to double, every activation and sum is double, and the gradient is
// rounded to float once, at the end. Samples are summed in order: the same mini-batch gives the same bits.
Result<std::unique_ptr<NetworkBackend>> make_reference_backend(NetworkSpec network, std::int64_t batch_size,
                                                               std::uint64_t seed);

}  // namespace paceline
