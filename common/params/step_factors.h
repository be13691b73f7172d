// Factors on an optimizer's learning rate and weight decay, by range of a parameter vector: what an
// element-wise step must know of a layout. Neighbouring tensors with the same factors are one range.
//
//   layout   conv1.weight 864 · conv1.bias 32 · fc.weight 10,240 · fc.bias 10      decay: weights
//   factors  [0, 864) 1, 1 · [864, 896) 1, 0 · [896, 11136) 1, 1 · [11136, 11146) 1, 0
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "common/config/run_config.h"
#include "common/params/layout.h"
#include "common/params/partition.h"

namespace paceline {

struct StepFactors {
  double lr = 1.0;     // times the learning rate; 0: elements stay as they are, and so does their state
  double decay = 1.0;  // times the weight decay
  // Of a buffer, whose lr is 0: what it becomes is (1 - towards) x what it is + towards x what was measured.
  double towards = 0.0;
  bool operator==(const StepFactors&) const = default;
};

// Of one tensor under an optimizer with these settings: its traits, and `decay: weights`. A buffer is not
// trained: a worker contributes what it measured, and each step, whatever its learning rate, goes the part of the
// way that the tensor's lr_factor says. So it is always a mean of measurements, however stale they are: a
// variance stays positive. Where there is no weight decay its factor is 1. An outer optimizer leaves both factors
// to the inner: of a buffer it gets what that one has come to, and takes it as it is.
StepFactors step_factors(const TensorTraits& traits, const OptimizerSection& settings);

// Thread: immutable after construction.
class FactorRanges {
 public:
  // All factors are 1.
  FactorRanges() = default;
  // For elements `range` of a vector with this layout, counted from the range's begin. What lies in no tensor
  // has the factors 1.
  FactorRanges(const Layout& layout, const OptimizerSection& settings, Range range);

  bool all_are_one() const { return pieces_.empty(); }

  // Calls use(piece, factors) for the pieces of `part` that have the same factors, from front to back.
  template <typename Use>
  void for_each(Range part, const Use& use) const {
    if (pieces_.empty()) {
      use(part, StepFactors{});
      return;
    }
    auto piece = std::upper_bound(pieces_.begin(), pieces_.end(), part.begin,
                                  [](std::int64_t at, const Piece& p) { return at < p.end; });
    for (std::int64_t at = part.begin; at < part.end; ++piece) {
      const bool behind = piece == pieces_.end();
      const std::int64_t end = behind ? part.end : std::min(part.end, piece->end);
      use(Range{at, end}, behind ? StepFactors{} : piece->factors);
      if (behind) return;
      at = end;
    }
  }

 private:
  struct Piece {
    std::int64_t end;  // it begins where the one before ends
    StepFactors factors;
  };
  std::vector<Piece> pieces_;
};

}  // namespace paceline
