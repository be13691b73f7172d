// Which gradient an eager decision takes next (one at a time, as soon as every shard has it whole;
// docs/SYNC.md, Versions and revisions): predicted, so that it can be applied ahead of the decision
// (store/speculative_apply.h).
//
// Decisions follow completion, so the prediction is the gradient that has been whole for longest; while none is
// whole, of the partial ones that which has most of itself here, once that is half. A worker that pushes
// layer by layer has begun a gradient for most of its step: which began first says nothing. A worker that is
// the only one has nobody before it.
//
//   A has 60 % here and stands still; B, C push     predicted: A
//   B is whole                                      A was wrong and is passed over; predicted: B
//   B is decided                                    right; next: whoever of B, C, ... is first at a half
//
// A prediction stays until it proves right or wrong. A wrong one is passed over from then on (a partial one until
// it is whole), so what is prepared of a gradient is dropped for that reason at most twice, however long it
// stands here. Where partial predictions have been wrong a few times in a row they are still made but not given
// out, until one would have been right.
//
// Costs: a piece O(1), a gradient that begins, ends or is passed over O(workers). Thread: one at a time.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "common/ids.h"
#include "common/wire/messages.h"
#include "server/store/gradient_store.h"

namespace paceline::server {

class NextGradientPredictor {
 public:
  struct Named {
    WorkerId worker;
    Clock clock;
    friend bool operator==(const Named&, const Named&) = default;
  };

  // Of gradients of `size` floats.
  NextGradientPredictor(Cluster cluster, std::int64_t size);

  // The newest piece of this gradient, from `begin` on, has come; it is `whole` now.
  void arrived(Named gradient, std::int64_t begin, bool whole);
  // These have been decided, and are no longer here.
  void decided(std::span<const wire::Contribution> contributions);
  // Some gradients are no longer here for another reason.
  void forget_missing(const GradientStore& gradients);

  // The gradient to prepare; none where nothing is here, or nothing that is worth it.
  std::optional<Named> next();

 private:
  struct Partial {
    Clock clock;
    std::int64_t floats = 0;  // of it are here; 0: none is partial
    bool passed_over = false;
  };
  struct Prediction {
    Named gradient;
    bool whole = false;
  };
  void find_leading();
  void pass_over(const Prediction& wrong);

  const Cluster cluster_;
  const std::int64_t size_;
  std::vector<Partial> partial_;          // by rank
  std::optional<std::uint32_t> leading_;  // the rank whose partial gradient has most here, none passed over
  std::deque<Named> whole_;               // as they became whole; none passed over
  std::optional<Prediction> prediction_;
  int wrong_partial_ = 0;  // partial predictions in a row
};

}  // namespace paceline::server
