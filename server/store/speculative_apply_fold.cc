// Applying a decision from wherever its preparation stands.
#include <algorithm>
#include <span>
#include <utility>

#include "common/params/vector_ops.h"
#include "server/store/speculative_apply.h"

namespace paceline::server {

bool SpeculativeApply::is_beginning_of(const wire::ApplyDecision& decision) const {
  if (taken_.empty()) return false;
  const bool mean = predictor_.combine() == CombineMode::kMean;
  const auto& contributions = decision.contributions;
  if (taken_.size() > contributions.size()) return false;
  if ((decision.combine == wire::Combine::kMean) != mean) return false;
  if (!mean && decision.learning_rate != learning_rate_) return false;  // a sum has none in it
  return std::equal(taken_.begin(), taken_.end(), contributions.begin(),
                    [this, mean](const wire::Contribution& taken, const wire::Contribution& decided) {
                      return taken.worker == decided.worker && taken.clock == decided.clock &&
                             (!mean || taken.samples == decided.samples) &&
                             divisor_of(taken) == divisor_of(decided);
                    });
}

void SpeculativeApply::apply(const wire::ApplyDecision& decision, const GradientStore& gradients,
                             BlockRange& now, Backups& backups) {
  if (predictor_.decided(decision)) drop();
  next_tried_ = 0;
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
  } else if (settings_.delay_compensation.kind != CompensationKind::kNone) {
    compensated_.apply(decision, gradients, optimizer_, now, pool_, backups, apply_pool_);
  } else if (settings_.kind == OptimizerKind::kSgd) {
    apply_each(decision, gradients, now);
  } else {
    apply_each_with_state(decision, gradients, now);
  }
  drop();
}

// Block by block, all gradients in each: without state the order of blocks and gradients is free.
void SpeculativeApply::apply_each(const wire::ApplyDecision& decision, const GradientStore& gradients,
                                  BlockRange& now) {
  const std::int64_t floats_left = take_over_finished(decision.contributions.size(), now);
  const auto finish = [&](std::size_t, std::int64_t k) {
    const std::int64_t i = unfinished_[static_cast<std::size_t>(k)];
    Block& block = blocks_[static_cast<std::size_t>(i)];
    const Range elements = now.elements(i);
    const auto apply_rest = [&](std::span<const float> in, std::span<float> out) {
      for (; block.taken < decision.contributions.size(); ++block.taken) {
        const wire::Contribution& c = decision.contributions[block.taken];
        const double rate = decision.learning_rate / divisor_of(c);
        const Then then = block.taken + 1 == decision.contributions.size() ? Then::kDone : Then::kReadAgain;
        gradients.find(c.worker, c.clock)
            ->for_each_in(elements, [&](std::int64_t offset, std::span<const float> values) {
              const auto at = static_cast<std::size_t>(offset - elements.begin);
              const auto part = out.subspan(at, values.size());
              write_step(rate, offset, in.subspan(at, values.size()), part, values, then);
            });
        in = out;
      }
    };
    if (!block.floats) return now.rewrite(i, pool_, apply_rest);
    const std::span<float> floats(block.floats.writable_data(), static_cast<std::size_t>(elements.size()));
    apply_rest(floats, floats);
    now.replace(i, std::move(block.floats));
  };
  run(floats_left, std::ssize(unfinished_), finish);
}

// Blocks that have taken all `contributions` become current; the others are listed in unfinished_. Returns
// how many floats of gradients those have yet to take.
std::int64_t SpeculativeApply::take_over_finished(std::size_t contributions, BlockRange& now) {
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

void SpeculativeApply::apply_each_with_state(const wire::ApplyDecision& decision,
                                             const GradientStore& gradients, BlockRange& now) {
  for (const wire::Contribution& c : decision.contributions) {
    const Gradient& gradient = *gradients.find(c.worker, c.clock);
    const double rate = decision.learning_rate / divisor_of(c);
    optimizer_.begin_step(rate);
    apply_pool_.run(now.block_count(), [&](std::size_t, std::int64_t i) {
      const Range block = now.elements(i);
      now.rewrite(i, pool_, [&](std::span<const float> in, std::span<float> out) {
        gradient.for_each_in(block, [&](std::int64_t offset, std::span<const float> values) {
          const auto at = static_cast<std::size_t>(offset - block.begin);
          write_step(rate, offset, in.subspan(at, values.size()), out.subspan(at, values.size()), values,
                     Then::kDone);
        });
      });
    });
  }
}

// The weights are the samples of the decision, which is the same on every shard, added in worker order: the
// same bits however the vector is cut (docs/SYNC.md, What is reproducible).
void SpeculativeApply::apply_mean(const wire::ApplyDecision& decision, const GradientStore& gradients,
                                  BlockRange& now) {
  std::int64_t samples = 0;
  for (const wire::Contribution& c : decision.contributions) samples += c.samples;
  const float share = 1.0F / static_cast<float>(samples);
  optimizer_.begin_step(decision.learning_rate);
  if (optimizer_.measures()) {
    // The mean of a whole tensor has to be there before its first element is changed.
    apply_pool_.run(now.block_count(), [&](std::size_t, std::int64_t i) {
      make_mean(i, sum_of_block(0, i, now.elements(i)), decision, share, gradients);
    });
    measure(now);
  }
  apply_pool_.run(now.block_count(), [&](std::size_t thread, std::int64_t i) {
    Block& block = blocks_[static_cast<std::size_t>(i)];
    const Range elements = now.elements(i);
    const std::span<float> sum = sum_of_block(thread, i, elements);
    if (!optimizer_.measures()) make_mean(i, sum, decision, share, gradients);
    if (block.floats && !now.ref(i).unique()) {
      optimizer_.apply(elements.begin, now.block(i), sum, sum);  // the sum's block becomes the current one
      now.replace(i, std::move(block.floats));
    } else {
      // Nobody reads it: it stays where it is, so that who has read it before maps no further pages.
      now.rewrite(i, pool_, [&](std::span<const float> in, std::span<float> out) {
        write_step(decision.learning_rate, elements.begin, in, out, sum, Then::kDone);
      });
    }
  });
}

// Where the sum of block i lies, which has these elements.
std::span<float> SpeculativeApply::sum_of_block(std::size_t thread, std::int64_t i, Range elements) {
  Block& block = blocks_[static_cast<std::size_t>(i)];
  const auto floats = static_cast<std::size_t>(elements.size());
  if (block.floats) return {block.floats.writable_data(), floats};
  if (optimizer_.measures())
    return std::span(sums_.front()).subspan(static_cast<std::size_t>(elements.begin), floats);
  sums_[thread].resize(floats);
  return sums_[thread];
}

// Of block i: what is prepared of its weighted sum, and the rest of it, as the mean.
void SpeculativeApply::make_mean(std::int64_t i, std::span<float> sum, const wire::ApplyDecision& decision,
                                 float share, const GradientStore& gradients) {
  Block& block = blocks_[static_cast<std::size_t>(i)];
  const Range elements{i * pool_.block_floats(), i * pool_.block_floats() + std::ssize(sum)};
  for (; block.taken < decision.contributions.size(); ++block.taken) {
    const wire::Contribution& c = decision.contributions[block.taken];
    const float weight = weight_of(c);
    gradients.find(c.worker, c.clock)
        ->for_each_in(elements, [&](std::int64_t offset, std::span<const float> values) {
          const auto part = sum.subspan(static_cast<std::size_t>(offset - elements.begin), values.size());
          block.taken == 0 ? begin_sum(part, values, weight) : add_weighted(part, values, weight);
        });
  }
  scale(sum, share);
}

// Over the parameters and the mean of each block, which lie in pieces of their own.
void SpeculativeApply::measure(const BlockRange& now) {
  const auto within = [](std::span<const float> block, std::int64_t at, std::int64_t n) {
    const auto rest = block.subspan(static_cast<std::size_t>(at));
    return rest.first(std::min(static_cast<std::size_t>(n), rest.size()));
  };
  const std::int64_t floats = now.block_floats();
  optimizer_.measure([&](std::int64_t offset,
                         std::int64_t n) { return within(now.block(offset / floats), offset % floats, n); },
                     [&](std::int64_t offset, std::int64_t n) {
                       const std::int64_t i = offset / floats;
                       return within(sum_of_block(0, i, now.elements(i)), offset % floats, n);
                     },
                     [&](std::int64_t count, const std::function<void(std::int64_t)>& work) {
                       apply_pool_.run(count, [&](std::size_t, std::int64_t i) { work(i); });
                     });
}

// A block beside the old one, of a state that outgrows the processor's cache, is written past that: else each
// line would be read first. Not where the next gradient reads it right away.
Stores SpeculativeApply::stores_of(std::span<const float> in, std::span<const float> out, Then then) const {
  const bool past_cache = in.data() != out.data() && size_ > kCachedFloatsMax && then == Then::kDone;
  return past_cache ? Stores::kPastCache : Stores::kCached;
}

// One step of the optimizer, with this rate: that of the step it was begun with, where it has a state.
void SpeculativeApply::write_step(double rate, std::int64_t offset, std::span<const float> in,
                                  std::span<float> out, std::span<const float> gradient, Then then) {
  const Stores stores = stores_of(in, out, then);
  if (settings_.kind == OptimizerKind::kSgd)
    return optimizer_.apply_stateless(offset, in, out, gradient, rate, stores);
  optimizer_.apply(offset, in, out, gradient, stores);
}

// Work on so many floats of gradients: with helpers, if they are worth waking.
void SpeculativeApply::run(std::int64_t floats, std::int64_t count,
                           const std::function<void(std::size_t, std::int64_t)>& work) {
  if (floats > apply_alone_floats_) return apply_pool_.run(count, work);
  for (std::int64_t k = 0; k < count; ++k) work(0, k);
}

}  // namespace paceline::server
