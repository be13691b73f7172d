// Foreseeing a decision, preparing it block by block, and applying it from wherever that stands.
#include "server/store/next_state.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <span>
#include <utility>

#include "common/params/schedule.h"
#include "common/params/vector_ops.h"
#include "common/sync/test_hooks.h"

namespace paceline::server {
namespace {

bool can_be_prepared(const ShardSettings& settings) {
  const bool stateless = settings.optimizer.kind == OptimizerKind::kSgd;
  return settings.prepare_next && (settings.combine == CombineMode::kMean || stateless);
}

}  // namespace

NextState::NextState(const ShardSettings& settings, std::int64_t size, const BlockPool& pool)
    : mode_(settings.apply),
      combine_(settings.combine),
      cluster_(settings.cluster),
      settings_(settings.optimizer),
      planned_versions_(settings.planned_versions),
      apply_alone_floats_(settings.apply_alone_floats),
      prepares_(can_be_prepared(settings)),
      pool_(pool),
      optimizer_(settings.optimizer, size),
      apply_pool_(size <= settings.apply_alone_floats ? 1 : settings.apply_threads),
      sums_(apply_pool_.threads()),
      blocks_(static_cast<std::size_t>((size + settings.block_floats - 1) / settings.block_floats)),
      guess_(cluster_, size),
      expected_(cluster_.workers()),
      last_samples_(cluster_.workers()) {
  std::iota(expected_.begin(), expected_.end(), 0U);
}

void NextState::arrived(const wire::Push& push, std::int64_t floats) {
  if (!prepares_) return;
  const std::int64_t block_floats = pool_.block_floats();
  for (std::int64_t i = push.offset / block_floats; i * block_floats < push.offset + floats; ++i) {
    if (std::exchange(blocks_[static_cast<std::size_t>(i)].candidate, true)) continue;
    candidates_.push_back(i);
  }
  if (mode_ == ApplyMode::kEager) guess_.arrived({push.worker, push.clock}, push.offset, push.last);
  if (push.last) learn_samples(push);
}

// They come with the last piece, and may be others than those with which some of it was taken.
void NextState::learn_samples(const wire::Push& push) {
  const auto taken = std::find_if(taken_.begin(), taken_.end(), [&](const wire::Contribution& c) {
    return c.worker == push.worker && c.clock == push.clock;
  });
  const bool wrong = taken != taken_.end() && taken->samples != push.samples;
  if (combine_ == CombineMode::kMean && wrong) drop();
  looked_at_ = 0;
}

bool NextState::prepare_one(const BlockRange& now, Version version, const GradientStore& gradients) {
  if (!may_prepare()) return false;
  if (mode_ == ApplyMode::kEager) follow_guess();
  std::size_t already = 0;  // the blocks that are looked at one after another have mostly taken as many
  const Gradient* gradient = next(already, version, gradients);
  const bool nothing = taken_.empty() && gradient == nullptr;
  const auto may_take = [&](std::int64_t i) {
    const Block& block = blocks_[static_cast<std::size_t>(i)];
    if (nothing) return false;
    if (block.taken != already) gradient = next(already = block.taken, version, gradients);
    return gradient != nullptr && take_one(i, now, version, *gradient);
  };
  while (!candidates_.empty()) {
    if (may_take(candidates_.front())) return true;
    blocks_[static_cast<std::size_t>(candidates_.front())].candidate = false;
    candidates_.pop_front();
  }
  if (nothing) looked_at_ = std::ssize(blocks_);
  for (; looked_at_ < std::ssize(blocks_); ++looked_at_) {
    if (may_take(looked_at_)) return true;
  }
  return false;
}

// What was prepared of another gradient is given up, and every block looked at for the new one.
void NextState::follow_guess() {
  const std::optional<EagerGuess::Named> guess = guess_.next();
  if (guess == guessed_) return;
  guessed_ = guess;
  drop();
}

// The gradient that the decision is expected to take after `already` others; nullptr when it has not begun.
const Gradient* NextState::next(std::size_t already, Version version, const GradientStore& gradients) const {
  if (already < taken_.size()) return gradients.begun(taken_[already].worker, taken_[already].clock);
  if (mode_ == ApplyMode::kEager) {
    return already == 0 && guessed_ ? gradients.begun(guessed_->worker, guessed_->clock) : nullptr;
  }
  if (already >= expected_.size()) return nullptr;
  return gradients.begun(cluster_.worker_at(Rank(expected_[already])), Clock(version.value));
}

// Takes the gradient that is next into block i; false when that part of it is not here, or its weight is not
// known.
bool NextState::take_one(std::int64_t i, const BlockRange& now, Version version, const Gradient& gradient) {
  Block& block = blocks_[static_cast<std::size_t>(i)];
  const Range elements = now.elements(i);
  const Range arrived = gradient.arrived();
  if (arrived.begin > elements.begin || arrived.end < elements.end) return false;
  if (taken_.empty()) prepared_for_ = version;
  if (taken_.empty() && combine_ == CombineMode::kEach) {
    learning_rate_ = learning_rate(settings_, version, planned_versions_);
    optimizer_.begin_step(learning_rate_);
  }
  if (block.taken == taken_.size()) {
    std::int64_t samples = gradient.samples();
    if (samples == 0) samples = last_samples_[cluster_.rank_of(gradient.worker()).value];
    if (samples == 0 && combine_ == CombineMode::kMean) return false;
    taken_.push_back({gradient.worker(), gradient.clock(), samples});
  }
  const bool first = block.taken == 0;
  if (first) {
    block.floats = pool_.acquire();
    ++prepared_;
  }
  take(block, elements, now.block(i).data(), gradient, static_cast<float>(taken_[block.taken].samples));
  return true;
}

// `before`: the block's parameters before anything is applied.
void NextState::take(Block& block, Range elements, const float* before, const Gradient& gradient,
                     float weight) {
  float* const floats = block.floats.writable_data();
  const bool first = block.taken++ == 0;
  gradient.for_each_in(elements, [&](std::int64_t offset, std::span<const float> values) {
    const std::int64_t at = offset - elements.begin;
    const std::span<float> part(floats + at, values.size());
    if (combine_ == CombineMode::kMean) {
      first ? begin_sum(part, values, weight) : add_weighted(part, values, weight);
    } else {
      optimizer_.apply(offset, first ? std::span(before + at, values.size()) : part, part, values);
    }
  });
}

void NextState::forget_missing(const GradientStore& gradients) {
  if (!prepares_ || sync::broken(sync::Mutant::kPreparedKeptAfterLoss)) return;
  looked_at_ = 0;
  if (mode_ == ApplyMode::kEager) guess_.forget_missing(gradients);
  const bool here = std::all_of(taken_.begin(), taken_.end(), [&](const wire::Contribution& c) {
    return gradients.begun(c.worker, c.clock) != nullptr;
  });
  if (!here) drop();
}

bool NextState::is_beginning_of(const wire::ApplyDecision& decision) const {
  if (taken_.empty()) return false;
  const bool mean = combine_ == CombineMode::kMean;
  const auto& contributions = decision.contributions;
  if (taken_.size() > contributions.size()) return false;
  if (sync::broken(sync::Mutant::kPreparedWhateverDecided)) return true;
  if ((decision.combine == wire::Combine::kMean) != mean) return false;
  if (!mean && decision.learning_rate != learning_rate_) return false;  // a sum has none in it
  return std::equal(taken_.begin(), taken_.end(), contributions.begin(),
                    [mean](const wire::Contribution& taken, const wire::Contribution& decided) {
                      return taken.worker == decided.worker && taken.clock == decided.clock &&
                             (!mean || taken.samples == decided.samples);
                    });
}

void NextState::apply(const wire::ApplyDecision& decision, const GradientStore& gradients, BlockRange& now) {
  foresee(decision);
  looked_at_ = 0;
  if (decision.contributions.empty()) {
    if (decision.version_after != prepared_for_) drop();  // another clock is next, or another rate
    return;
  }
  if (is_beginning_of(decision)) {
    committed_ += std::exchange(prepared_, 0);
  } else {
    drop();
  }
  if (decision.combine == wire::Combine::kMean) {
    apply_mean(decision, gradients, now);
  } else if (settings_.kind == OptimizerKind::kSgd) {
    apply_each(decision, gradients, now);
  } else {
    apply_each_with_state(decision, gradients, now);
  }
  drop();
}

// Block by block, all gradients in each: without state the order of blocks and gradients is free.
void NextState::apply_each(const wire::ApplyDecision& decision, const GradientStore& gradients,
                           BlockRange& now) {
  optimizer_.begin_step(decision.learning_rate);
  const std::int64_t floats_left = take_over_finished(decision.contributions.size(), now);
  const auto finish = [&](std::size_t, std::int64_t k) {
    const std::int64_t i = unfinished_[static_cast<std::size_t>(k)];
    Block& block = blocks_[static_cast<std::size_t>(i)];
    const Range elements = now.elements(i);
    const auto apply_rest = [&](std::span<const float> in, std::span<float> out) {
      for (; block.taken < decision.contributions.size(); ++block.taken) {
        const wire::Contribution& c = decision.contributions[block.taken];
        gradients.find(c.worker, c.clock)
            ->for_each_in(elements, [&](std::int64_t offset, std::span<const float> values) {
              const auto at = static_cast<std::size_t>(offset - elements.begin);
              const auto part = out.subspan(at, values.size());
              optimizer_.apply(offset, in.subspan(at, values.size()), part, values);
            });
        in = out;
      }
    };
    if (!block.floats) return now.rewrite(i, pool_, apply_rest);
    const std::span<float> floats(block.floats.writable_data(), static_cast<std::size_t>(elements.size()));
    apply_rest(floats, floats);
    now.replace(i, std::move(block.floats));
  };
  const std::int64_t blocks_left = std::ssize(unfinished_);
  if (floats_left > apply_alone_floats_) return apply_pool_.run(blocks_left, finish);
  for (std::int64_t k = 0; k < blocks_left; ++k) finish(0, k);
}

// Blocks that have taken all `contributions` become current; the others are listed in unfinished_. Returns
// how many floats of gradients those have yet to take.
std::int64_t NextState::take_over_finished(std::size_t contributions, BlockRange& now) {
  unfinished_.clear();
  std::int64_t floats_left = 0;
  for (std::int64_t i = 0; i < now.block_count(); ++i) {
    Block& block = blocks_[static_cast<std::size_t>(i)];
    if (block.floats && block.taken == contributions) {
      now.replace(i, std::move(block.floats));
    } else {
      unfinished_.push_back(i);
      floats_left += now.elements(i).size() * static_cast<std::int64_t>(contributions - block.taken);
    }
  }
  return floats_left;
}

void NextState::apply_each_with_state(const wire::ApplyDecision& decision, const GradientStore& gradients,
                                      BlockRange& now) {
  for (const wire::Contribution& c : decision.contributions) {
    const Gradient& gradient = *gradients.find(c.worker, c.clock);
    optimizer_.begin_step(decision.learning_rate);
    apply_pool_.run(now.block_count(), [&](std::size_t, std::int64_t i) {
      const Range block = now.elements(i);
      now.rewrite(i, pool_, [&](std::span<const float> in, std::span<float> out) {
        gradient.for_each_in(block, [&](std::int64_t offset, std::span<const float> values) {
          const auto at = static_cast<std::size_t>(offset - block.begin);
          optimizer_.apply(offset, in.subspan(at, values.size()), out.subspan(at, values.size()), values);
        });
      });
    });
  }
}

// The weights are the samples of the decision, which is the same on every shard, added in worker order: the
// same bits however the vector is cut (DESIGN 3.4).
void NextState::apply_mean(const wire::ApplyDecision& decision, const GradientStore& gradients,
                           BlockRange& now) {
  std::int64_t samples = 0;
  for (const wire::Contribution& c : decision.contributions) samples += c.samples;
  const float share = 1.0F / static_cast<float>(samples);
  optimizer_.begin_step(decision.learning_rate);
  apply_pool_.run(now.block_count(), [&](std::size_t thread, std::int64_t i) {
    Block& block = blocks_[static_cast<std::size_t>(i)];
    const Range elements = now.elements(i);
    const auto floats = static_cast<std::size_t>(elements.size());
    if (!block.floats) sums_[thread].resize(floats);
    const std::span<float> sum =
        block.floats ? std::span(block.floats.writable_data(), floats) : std::span(sums_[thread]);
    for (; block.taken < decision.contributions.size(); ++block.taken) {
      const wire::Contribution& c = decision.contributions[block.taken];
      const auto weight = static_cast<float>(c.samples);
      gradients.find(c.worker, c.clock)
          ->for_each_in(elements, [&](std::int64_t offset, std::span<const float> values) {
            const auto part = sum.subspan(static_cast<std::size_t>(offset - elements.begin), values.size());
            block.taken == 0 ? begin_sum(part, values, weight) : add_weighted(part, values, weight);
          });
    }
    scale(sum, share);
    if (block.floats) {
      optimizer_.apply(elements.begin, now.block(i), sum, sum);  // the sum's block becomes the current one
      now.replace(i, std::move(block.floats));
    } else {
      now.rewrite(i, pool_, [&](std::span<const float> in, std::span<float> out) {
        optimizer_.apply(elements.begin, in, out, sum);
      });
    }
  });
}

// Who has contributed will contribute to the next clock, too, unless it has finished or dies.
void NextState::foresee(const wire::ApplyDecision& decision) {
  if (!prepares_) return;
  if (mode_ == ApplyMode::kEager) return guess_.decided(decision.contributions);
  if (decision.contributions.empty() && decision.skipped.empty()) return;
  expected_.clear();
  for (const auto* list : {&decision.contributions, &decision.skipped}) {
    for (const wire::Contribution& c : *list) {
      const std::uint32_t rank = cluster_.rank_of(c.worker).value;
      expected_.push_back(rank);
      if (c.samples > 0) last_samples_[rank] = c.samples;
    }
  }
  std::sort(expected_.begin(), expected_.end());
}

void NextState::drop() {
  for (Block& block : blocks_) block = Block();
  taken_.clear();
  dropped_ += std::exchange(prepared_, 0);
  candidates_.clear();
  looked_at_ = 0;
}

}  // namespace paceline::server
