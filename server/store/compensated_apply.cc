#include "server/store/compensated_apply.h"

#include <algorithm>
#include <array>
#include <span>

#include "common/assert.h"

namespace paceline::server {

CompensatedApply::CompensatedApply(const ShardSettings& settings, std::int64_t size)
    : compensation_(settings.optimizer.delay_compensation, size, settings.block_floats, settings.factors),
      local_updates_(settings.local_updates),
      changed_(settings.block_floats,
               static_cast<std::size_t>((size + settings.block_floats - 1) / settings.block_floats)) {}

// One gradient after another, since each is compensated for those before it.
void CompensatedApply::apply(const wire::ApplyDecision& decision, const GradientStore& gradients,
                             const OptimizerState& optimizer, BlockRange& now, BlockPool& pool,
                             Backups& backups, ApplyPool& helpers) {
  Revision applied(decision.revision_after.value - std::ssize(decision.contributions));
  for (const wire::Contribution& c : decision.contributions) {
    const Gradient& gradient = *gradients.find(c.worker, c.clock);
    const BlockRange* const backup = backups.find(c.worker, gradient.computed_revision());
    PACELINE_ASSERT(backup != nullptr, "the gradient of worker " + to_string(c.worker) + " stamped " +
                                           to_string(c.clock) + " is held, the state of revision " +
                                           to_string(gradient.computed_revision()) +
                                           " that it was computed with is not");
    helpers.run(now.block_count(), [&](std::size_t, std::int64_t i) {
      const Range block = now.elements(i);
      const auto compensate_and_step = [&](std::span<const float> in, std::span<float> out) {
        gradient.for_each_in(block, [&](std::int64_t offset, std::span<const float> values) {
          std::array<float, 1024> stretch;
          for (std::size_t done = 0; done < values.size(); done += stretch.size()) {
            const std::size_t n = std::min(stretch.size(), values.size() - done);
            const std::int64_t begin = offset + static_cast<std::int64_t>(done);
            const auto at = static_cast<std::size_t>(begin - block.begin);
            const std::span<float> compensated(stretch.data(), n);
            compensation_.apply(begin, values.subspan(done, n), in.subspan(at, n),
                                backup->block(i).subspan(at, n), compensated);
            optimizer.apply_stateless(begin, in.subspan(at, n), out.subspan(at, n), compensated,
                                      decision.learning_rate);
          }
        });
      };
      now.rewrite(i, pool, compensate_and_step);
    });
    ++applied.value;
    for (BlockRange* const state :
         backups.lacking(c.worker, gradient.computed_revision(), applied, gradients)) {
      if (local_updates_) apply_locally(gradient, optimizer, decision.learning_rate, *state, helpers);
    }
  }
}

// As its worker did: worker/cache/thread_cache.h.
void CompensatedApply::apply_locally(const Gradient& gradient, const OptimizerState& optimizer, double rate,
                                     BlockRange& backup, ApplyPool& helpers) {
  helpers.run(backup.block_count(), [&](std::size_t, std::int64_t i) {
    const Range block = backup.elements(i);
    backup.rewrite(i, changed_, [&](std::span<const float> in, std::span<float> out) {
      gradient.for_each_in(block, [&](std::int64_t offset, std::span<const float> values) {
        const auto at = static_cast<std::size_t>(offset - block.begin);
        optimizer.apply_stateless(offset, in.subspan(at, values.size()), out.subspan(at, values.size()),
                                  values, rate);
      });
    });
  });
}

}  // namespace paceline::server
