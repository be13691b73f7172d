// Preparing a decision that is predicted, some blocks at a time. Applying it: speculative_apply_fold.cc.
#include "server/store/speculative_apply.h"

#include <algorithm>
#include <span>
#include <utility>

#include "common/params/vector_ops.h"

namespace paceline::server {
namespace {

bool can_be_prepared(const ShardSettings& settings) {
  const bool compensates = settings.optimizer.delay_compensation.kind != CompensationKind::kNone;
  return settings.prepare_next && !compensates;
}

}  // namespace

SpeculativeApply::SpeculativeApply(const ShardSettings& settings, std::int64_t size, const BlockPool& pool)
    : predictor_(settings, size, can_be_prepared(settings)),
      settings_(settings.optimizer),
      size_(size),
      apply_alone_floats_(settings.apply_alone_floats),
      may_be_prepared_(can_be_prepared(settings)),
      pool_(pool),
      optimizer_(settings.optimizer, size, settings.block_floats, settings.factors),
      compensated_(settings, size),
      apply_pool_(size <= settings.apply_alone_floats ? 1 : settings.apply_threads),
      sums_(apply_pool_.threads()),
      blocks_(static_cast<std::size_t>((size + settings.block_floats - 1) / settings.block_floats)) {
  if (optimizer_.measures()) sums_.front().resize(static_cast<std::size_t>(size));
}

void SpeculativeApply::arrived(const wire::Push& push, std::int64_t floats) {
  predictor_.arrived(push);
  if (!prepares()) return;
  const std::int64_t block_floats = pool_.block_floats();
  for (std::int64_t i = push.offset / block_floats; i * block_floats < push.offset + floats; ++i) {
    if (std::exchange(blocks_[static_cast<std::size_t>(i)].candidate, true)) continue;
    candidates_.push_back(i);
  }
  if (push.last) learn_samples(push);
}

// They come with the last piece, and may be others than those with which some of it was taken.
void SpeculativeApply::learn_samples(const wire::Push& push) {
  const auto taken = std::find_if(taken_.begin(), taken_.end(), [&](const wire::Contribution& c) {
    return c.worker == push.worker && c.clock == push.clock;
  });
  const bool wrong = taken != taken_.end() && taken->samples != push.samples;
  if (predictor_.combine() == CombineMode::kMean && wrong) drop();
  next_tried_ = 0;
}

bool SpeculativeApply::prepare_some(const BlockRange& now, Version version, GradientStore& gradients) {
  if (!may_prepare()) return false;
  if (predictor_.update()) drop();  // what was prepared of another gradient is given up
  std::size_t already = 0;  // the blocks that are looked at one after another have mostly taken as many
  Gradient* gradient = next(already, version, gradients);
  const bool nothing = taken_.empty() && gradient == nullptr;
  unfinished_.clear();
  // Whether it is one more of those that take the same gradient now.
  const auto takes = [&](std::int64_t i) {
    const Block& block = blocks_[static_cast<std::size_t>(i)];
    if (nothing) return false;
    if (block.taken != already) {
      if (!unfinished_.empty()) return false;
      gradient = next(already = block.taken, version, gradients);
    }
    if (gradient == nullptr || !can_take(i, now, version, *gradient)) return false;
    unfinished_.push_back(i);
    return true;
  };
  // No more than the others are woken for: what this thread does alone holds everybody up.
  const auto threads = static_cast<std::int64_t>(apply_pool_.threads());
  const std::int64_t most = threads * pool_.block_floats() > apply_alone_floats_ ? threads : 1;
  const auto all_busy = [&] { return std::ssize(unfinished_) == most; };
  while (!candidates_.empty() && unfinished_.empty()) {
    if (takes(candidates_.front())) break;
    blocks_[static_cast<std::size_t>(candidates_.front())].candidate = false;
    candidates_.pop_front();
  }
  for (std::size_t k = 1; k < candidates_.size() && !all_busy(); ++k) takes(candidates_[k]);
  if (unfinished_.empty()) {
    if (nothing) next_tried_ = std::ssize(blocks_);
    while (next_tried_ < std::ssize(blocks_) && !takes(next_tried_)) ++next_tried_;
    for (std::int64_t i = next_tried_ + 1; i < std::ssize(blocks_) && !all_busy(); ++i) takes(i);
  }
  std::int64_t floats = 0;
  for (const std::int64_t i : unfinished_) floats += now.elements(i).size();
  run(floats, std::ssize(unfinished_),
      [&](std::size_t, std::int64_t k) { take(unfinished_[static_cast<std::size_t>(k)], now, *gradient); });
  return !unfinished_.empty();
}

// The gradient that the decision is expected to take after `already` others; nullptr when it has not begun.
Gradient* SpeculativeApply::next(std::size_t already, Version version, GradientStore& gradients) const {
  if (already < taken_.size()) return gradients.begun(taken_[already].worker, taken_[already].clock);
  const auto predicted = predictor_.gradient(already, version);
  return predicted ? gradients.begun(predicted->worker, predicted->clock) : nullptr;
}

// Whether block i can take the gradient that is next: that part of it is here, and its weight is known. It is
// to take it then.
bool SpeculativeApply::can_take(std::int64_t i, const BlockRange& now, Version version, Gradient& gradient) {
  const std::size_t already = blocks_[static_cast<std::size_t>(i)].taken;
  const Range elements = now.elements(i);
  const Range arrived = gradient.arrived();
  if (arrived.begin > elements.begin || arrived.end < elements.end) return false;
  if (!expect(already, version, gradient)) return false;
  if (already == 0) ++prepared_;
  return true;
}

// From now on `gradient` is the one that blocks take after `already` others; false when its weight is not
// known.
bool SpeculativeApply::expect(std::size_t already, Version version, const Gradient& gradient) {
  if (taken_.empty()) prepared_for_ = version;
  if (taken_.empty() && predictor_.combine() == CombineMode::kEach) learning_rate_ = predictor_.rate(version);
  if (already < taken_.size()) return true;
  const auto contribution = predictor_.contribution(already, gradient);
  if (contribution) taken_.push_back(*contribution);
  return contribution.has_value();
}

void SpeculativeApply::take(std::int64_t i, const BlockRange& now, Gradient& gradient) {
  Block& block = blocks_[static_cast<std::size_t>(i)];
  const wire::Contribution& taken = taken_[block.taken];
  const float weight = weight_of(taken);
  const double rate = learning_rate_ / divisor_of(taken);
  const bool first = block.taken++ == 0;
  if (first) block.floats = pool_.acquire();
  float* const floats = block.floats.writable_data();
  const float* const before = now.block(i).data();
  const Range elements = now.elements(i);
  const Then then = block.taken == predictor_.gradients() ? Then::kDone : Then::kReadAgain;
  const bool mean = predictor_.combine() == CombineMode::kMean;
  gradient.use_and_check(elements, [&](std::int64_t offset, std::span<const float> values, bool check) {
    const std::int64_t at = offset - elements.begin;
    const std::span<float> part(floats + at, values.size());
    if (mean) {
      first ? begin_sum(part, values, weight) : add_weighted(part, values, weight);
      return check && first_non_finite(values).has_value();
    }
    const std::span<const float> in = first ? std::span(before + at, values.size()) : part;
    const Stores stores = stores_of(in, part, then);
    if (check) return optimizer_.apply_stateless_and_check(offset, in, part, values, rate, stores);
    optimizer_.apply_stateless(offset, in, part, values, rate, stores);
    return false;
  });
}

void SpeculativeApply::prepare_whole(const Gradient& whole, const BlockRange& now, Version version,
                                     GradientStore& gradients) {
  if (!prepares()) return;
  if (predictor_.update()) drop();  // what was prepared of another gradient is given up
  std::size_t place = 0;
  while (place < taken_.size() && next(place, version, gradients) != &whole) ++place;
  Gradient* const gradient = next(place, version, gradients);
  if (gradient != &whole || !expect(place, version, whole)) return;
  // A block that nobody reads the decision writes in place, which costs less than one beside it; but not less
  // than that and a pass before it that checks, where a step is all that the block takes and the gradient has
  // gone from the processor's cache by then.
  const bool one_step = predictor_.combine() == CombineMode::kEach && predictor_.gradients() == 1;
  const bool beside_all = one_step && size_ > kCachedFloatsMax && 2 * whole.unchecked_floats() > size_;
  unfinished_.clear();
  std::int64_t floats = 0;
  for (std::int64_t i = 0; i < std::ssize(blocks_); ++i) {
    if (blocks_[static_cast<std::size_t>(i)].taken != place) continue;
    if (place == 0 && !beside_all && now.ref(i).unique()) continue;
    unfinished_.push_back(i);
    floats += now.elements(i).size();
  }
  if (place == 0) prepared_ += std::ssize(unfinished_);
  run(floats, std::ssize(unfinished_),
      [&](std::size_t, std::int64_t k) { take(unfinished_[static_cast<std::size_t>(k)], now, *gradient); });
}

void SpeculativeApply::check_rest_finite(Gradient& whole) {
  const std::int64_t floats = whole.unchecked_floats();
  if (floats > 0)
    run(floats, whole.piece_count(), [&](std::size_t, std::int64_t k) { whole.check_finite(k); });
}

void SpeculativeApply::forget_missing(const GradientStore& gradients) {
  predictor_.forget_missing(gradients);
  if (!prepares()) return;
  next_tried_ = 0;
  const bool here = std::all_of(taken_.begin(), taken_.end(), [&](const wire::Contribution& c) {
    return gradients.begun(c.worker, c.clock) != nullptr;
  });
  if (!here) drop();
}

Status SpeculativeApply::restore(Revision revision, OptimizerImage optimizer, BlockRange mean_square) {
  PACELINE_RETURN_IF_ERROR(compensated_.restore(std::move(mean_square)));
  PACELINE_RETURN_IF_ERROR(optimizer_.restore(std::move(optimizer)));
  predictor_.restore(revision);
  return Status::ok();
}

void SpeculativeApply::drop() {
  for (Block& block : blocks_) block = Block();
  taken_.clear();
  dropped_ += std::exchange(prepared_, 0);
  candidates_.clear();
  next_tried_ = 0;
}

}  // namespace paceline::server
