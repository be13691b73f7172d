// Factors on an optimizer's learning rate and weight decay, by range of a parameter vector: what an
// element-wise step must know of a layout. Neighbouring tensors with the same factors are one range.
//
//   layout   conv1.weight 864 · conv1.bias 32 · fc.weight 10,240 · fc.bias 10      decay: weights
//   factors  [0, 864) 1, 1 · [864, 896) 1, 0 · [896, 11136) 1, 1 · [11136, 11146) 1, 0
//
// Under an optimizer that sums over whole tensors (trust_ratio.h) each tensor is a range of its own, and so is one that
// may be unused.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "common/config/optimizer_section.h"
#include "common/params/layout.h"
#include "common/params/partition.h"

namespace paceline {

struct StepFactors {
  double lr = 1.0;     // times the learning rate; 0: elements stay as they are, and so does their state
  double decay = 1.0;  // times the weight decay
  // Of a buffer, whose lr is 0: what it becomes is (1 - towards) x what it is + towards x what was measured.
  double towards = 0.0;
  bool may_be_unused = false;  // where it has no gradient, it stays as it is (layout.h)
  bool adapts = false;         // lars, lamb: its step is multiplied by its tensor's trust ratio
  bool operator==(const StepFactors&) const = default;
};

// Of one tensor under an optimizer with these settings: its traits, and `decay: weights`. A buffer is not
// trained: a worker contributes what it measured, and each step, whatever its learning rate, goes the part of the
// way that the tensor's lr_factor says. So it is always a mean of measurements, however stale they are: a
// variance stays positive. Where there is no weight decay its factor is 1. An outer optimizer leaves both factors
// to the inner: of a buffer it gets what that one has come to, and takes it as it is.
StepFactors step_factors(const TensorTraits& traits, const OptimizerSection& settings);

// Whether this part of a gradient, of elements with these factors, says that there is none (layout.h). Most are known
// not to by their first element.
bool is_unused(const StepFactors& factors, std::span<const float> gradient);

// Thread: immutable after construction.
class FactorRanges {
 public:
  // All factors are 1.
  FactorRanges() = default;
  // For elements `range` of a vector with this layout, counted from the range's begin. What lies in no tensor
  // has the factors 1. Under lars and lamb `range` cuts no tensor that adapts (shard_ranges.h).
  FactorRanges(const Layout& layout, const OptimizerSection& settings, Range range);

  bool all_are_one() const { return pieces_.empty(); }

  // Elements [the end of the piece before, end) have these.
  struct Piece {
    std::int64_t end;
    StepFactors factors;
  };
  const std::vector<Piece>& pieces() const { return pieces_; }

  // Calls use(piece, factors) for the pieces of `part` that have the same factors, from front to back.
  template <typename Use>
  void for_each(Range part, const Use& use) const {
    for_each_numbered(part, [&](Range at, const StepFactors& factors, std::size_t) { use(at, factors); });
  }
  // The same with the number of the piece; pieces().size() after the last.
  template <typename Use>
  void for_each_numbered(Range part, const Use& use) const {
    if (pieces_.empty()) {
      use(part, StepFactors{}, 0);
      return;
    }
    auto piece = std::upper_bound(pieces_.begin(), pieces_.end(), part.begin,
                                  [](std::int64_t at, const Piece& p) { return at < p.end; });
    for (std::int64_t at = part.begin; at < part.end; ++piece) {
      const bool after = piece == pieces_.end();
      const std::int64_t end = after ? part.end : std::min(part.end, piece->end);
      use(Range{at, end}, after ? StepFactors{} : piece->factors,
          static_cast<std::size_t>(piece - pieces_.begin()));
      if (after) return;
      at = end;
    }
  }

 private:
  std::vector<Piece> pieces_;
};

}  // namespace paceline
