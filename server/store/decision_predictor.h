// DecisionPredictor: what the next decision takes, as far as that can be known before it is taken: which gradients,
// in which order, with which weight and learning rate.
//
//   versioned  those of the current version's clock in worker order, of the workers of the decision before: who has
//              contributed will contribute to the next clock, too, unless it has finished or dies
//   eager      the one that next_gradient_predictor.h names
//
//   decided {0, 1, 2} at version 4   ->   at version 5: 0, 1 and 2, each stamped 5
//
// A run that turns eager (common/sync/policy_stage.h) says so with the first decision of that kind. Which
// gradients come is followed from the beginning; that first decision is predicted wrongly.
//
// Thread: one at a time (the server's loop).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "common/clock.h"
#include "common/config/optimizer_section.h"
#include "common/ids.h"
#include "common/wire/messages.h"
#include "server/store/gradient_store.h"
#include "server/store/next_gradient_predictor.h"
#include "server/store/shard_settings.h"

namespace paceline::server {

class DecisionPredictor {
 public:
  // For a range of `size` floats. `is_read`: anybody asks.
  DecisionPredictor(const ShardSettings& settings, std::int64_t size, bool is_read);
  // Nothing is decided yet in this process, but what led to `revision`.
  void restore(Revision revision) { revision_ = revision; }

  // How the next decision is applied.
  ApplyMode mode() const { return mode_; }
  CombineMode combine() const { return combine_; }

  // A piece of a gradient has come.
  void arrived(const wire::Push& push);
  // Some gradients have been forgotten.
  void forget_missing(const GradientStore& gradients);
  // Takes what has come into account. True: another gradient is predicted than at the last update().
  bool update();
  // True: from here on each is applied on arrival.
  bool decided(const wire::ApplyDecision& decision);

  // How many gradients it takes.
  std::size_t gradients() const { return mode_ == ApplyMode::kEager ? 1 : expected_.size(); }
  // Which one after `already` others, where parameters are of `version`; none: it is not known.
  std::optional<NextGradientPredictor::Named> gradient(std::size_t already, Version version) const;
  // As what `gradient`, which has begun, is taken after `already` others; none where its weight is not known. Its
  // staleness is as the authority will count it (common/sync/actions.h), if it counts what the pushes say.
  std::optional<wire::Contribution> contribution(std::size_t already, const Gradient& gradient) const;
  // combine: each: with which rate.
  double rate(Version version) const;

 private:
  ApplyMode mode_;
  CombineMode combine_;
  const bool turns_eager_;
  const bool expects_;        // expected_ is of use
  const bool predicts_next_;  // next_gradient_ is, now or later
  const Cluster cluster_;
  const OptimizerSection settings_;
  const std::int64_t planned_versions_;
  Revision revision_;                                      // after the last decision
  double rate_scale_;                                      // of that decision, or of the first
  NextGradientPredictor next_gradient_;                    // where it is or turns eager
  std::optional<NextGradientPredictor::Named> predicted_;  // at the last update()
  std::vector<std::uint32_t> expected_;     // versioned: the ranks whose gradients the next decision takes
  std::vector<std::int64_t> last_samples_;  // by rank: of its last gradient that was applied; 0: unknown
};

}  // namespace paceline::server
