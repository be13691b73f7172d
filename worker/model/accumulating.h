// Accumulation: a mini-batch is computed in several parts, one after another, by a back end for one of them, and
// their gradients are added up (train.accumulate). Activations then need the memory of one part, at the price of a
// gradient more, and of small parts' speed.
//
//   8 samples in 3 parts, whose sizes differ by one at most:   gradient = 3/8 g(0..2) + 3/8 g(3..5) + 2/8 g(6..7)
//
// Each part weighs as many samples as it has, so the sum is the gradient of the mean loss over all, up to rounding.
// What looks at the samples of a mini-batch together, as batch norm and a mean over the labels that count, sees those
// of a part.
//
// A layer's gradient is final with the last part's, so gradients leave while that is computed. A part is predicted
// (backend.h) while the one before is computed, and of a mini-batch that is predicted the first.
#pragma once

#include <cstdint>

#include "worker/model/backend.h"

namespace paceline {

// Makes what computes a mini-batch of the given size in `parts` >= 1 parts, a smaller one in as few as have no more
// samples each, by back ends of `make`; 1: those themselves. Errors and threads: as `make`'s.
MakeBackend accumulating(MakeBackend make, std::int64_t parts);

}  // namespace paceline
