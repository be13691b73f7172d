#include "tests/unit/local_exchange.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "common/assert.h"
#include "common/params/non_finite.h"
#include "common/params/staleness.h"
#include "common/params/vector_ops.h"

namespace paceline {
namespace {

constexpr ShardId kAll{0};  // the only range

}  // namespace

LocalExchange::LocalExchange(const RunConfig& config, const Layout& layout, std::span<const float> initial,
                             ProcessCache& cache, Ticks (*now)())
    : settings_(config.train.optimizer),
      layout_(layout),
      cache_(cache),
      now_(now),
      pool_(std::max<std::int64_t>(1, layout.size()), /*idle_max=*/2),
      parameters_(pool_, layout.size()),
      optimizer_(config.train.optimizer, layout.size(), std::max<std::int64_t>(1, layout.size()),
                 FactorRanges(layout, config.train.optimizer, {0, layout.size()})),
      stamp_{Version(0), Revision(0), std::vector<Clock>(config.cluster.threads_per_node)} {
  PACELINE_ASSERT(std::ssize(initial) == layout.size() && cache.ranges().size() == 1,
                  std::to_string(initial.size()) + " initial parameters of " + std::to_string(layout.size()) +
                      ", in " + std::to_string(cache.ranges().size()) + " slices");
  parameters_.copy_from(0, initial, pool_);
}

void LocalExchange::push(Contribution gradient) {
  std::string fault;
  if (const auto at = first_non_finite(gradient.values.floats)) {
    fault = describe_non_finite(gradient.values.floats[static_cast<std::size_t>(*at)], *at, layout_);
  }
  {
    const std::lock_guard lock(mutex_);
    gradients_[{gradient.worker, gradient.clock}] = std::move(gradient.values);
  }
  on_arrival_(gradient.worker, gradient.clock, gradient.samples, fault);
}

Ticket LocalExchange::request_parameters(Version min_version) {
  const std::lock_guard lock(mutex_);
  while (pulls_.size() >= kPullsKept && pulls_.begin()->second.installed) pulls_.erase(pulls_.begin());
  Pull& pull = pulls_[++last_ticket_];
  pull.min_version = min_version;
  if (stamp_.version >= min_version) answer(pull);
  return last_ticket_;
}

// The state is shared, not copied: the next one is written beside it.
void LocalExchange::answer(Pull& pull) {
  const auto block = std::make_shared<BlockRef>(parameters_.ref(0));
  const std::span<const float> floats = parameters_.block(0);
  const auto bytes = std::as_bytes(floats);
  cache_.install(
      kAll, std::make_shared<const Slice>(
                Slice{{0, parameters_.size()}, stamp_, {{0, Payload{block, bytes.data(), bytes.size()}}}}));
  pull.installed = now_();
}

Result<Ticks> LocalExchange::await_parameters(Ticket ticket, ParameterSink&) {
  std::unique_lock lock(mutex_);
  // One that is no longer kept was answered long ago.
  const auto installed = [&] {
    const auto pull = pulls_.find(ticket);
    return pull == pulls_.end() ? std::optional(Ticks()) : pull->second.installed;
  };
  changed_.wait(lock, [&] { return !closed_.is_ok() || installed(); });
  if (!closed_.is_ok()) return closed_;
  return *installed();
}

std::optional<Ticks> LocalExchange::parameters_installed(Ticket ticket) {
  const std::lock_guard lock(mutex_);
  const auto pull = pulls_.find(ticket);
  return pull == pulls_.end() ? std::optional(Ticks()) : pull->second.installed;
}

void LocalExchange::apply(const sync::Apply& decision, double learning_rate) {
  const std::lock_guard lock(mutex_);
  if (!decision.contributors.empty()) {
    decision.combine == CombineMode::kMean ? apply_mean(decision, learning_rate)
                                           : apply_each(decision, learning_rate);
  }
  for (const sync::Contributor& c : decision.contributors) {
    gradients_.erase({c.worker, c.clock});
    stamp_.applied[c.worker.thread] = c.clock.next();
  }
  for (const sync::SkippedIteration& s : decision.skipped) stamp_.applied[s.worker.thread] = s.clock.next();
  stamp_.version = decision.version_after;
  stamp_.revision = decision.revision_after;
  for (auto& [ticket, pull] : pulls_) {
    if (!pull.installed && stamp_.version >= pull.min_version) answer(pull);
  }
  changed_.notify_all();
}

void LocalExchange::apply_each(const sync::Apply& decision, double learning_rate) {
  for (const sync::Contributor& c : decision.contributors) {
    const SharedFloats& gradient = gradients_.at({c.worker, c.clock});
    optimizer_.begin_step(learning_rate / staleness_divisor(settings_.staleness, c.staleness));
    parameters_.rewrite(0, pool_, [&](std::span<const float> in, std::span<float> out) {
      optimizer_.apply(0, in, out, gradient.floats);
    });
  }
}

// As servers do it: weights in worker order, then divided by all samples (common/params/vector_ops.h).
void LocalExchange::apply_mean(const sync::Apply& decision, double learning_rate) {
  sum_.resize(static_cast<std::size_t>(parameters_.size()));
  std::int64_t samples = 0;
  bool first = true;
  for (const sync::Contributor& c : decision.contributors) {
    const std::span<const float> gradient = gradients_.at({c.worker, c.clock}).floats;
    const float weight = staleness_weight(settings_.staleness, c.weight, c.staleness);
    std::exchange(first, false) ? begin_sum(sum_, gradient, weight) : add_weighted(sum_, gradient, weight);
    samples += c.weight;
  }
  scale(sum_, 1.0F / static_cast<float>(samples));
  optimizer_.begin_step(learning_rate);
  if (optimizer_.measures()) optimizer_.measure(floats_of(parameters_.block(0)), floats_of(sum_));
  parameters_.rewrite(
      0, pool_, [&](std::span<const float> in, std::span<float> out) { optimizer_.apply(0, in, out, sum_); });
}

void LocalExchange::discard(WorkerId worker, Clock clock) {
  const std::lock_guard lock(mutex_);
  gradients_.erase({worker, clock});
}

void LocalExchange::close(Status why) {
  const std::lock_guard lock(mutex_);
  if (closed_.is_ok()) closed_ = std::move(why);
  changed_.notify_all();
}

std::vector<float> LocalExchange::parameters() const {
  const std::lock_guard lock(mutex_);
  const std::span<const float> floats = parameters_.block(0);
  return {floats.begin(), floats.end()};
}

Version LocalExchange::version() const {
  const std::lock_guard lock(mutex_);
  return stamp_.version;
}

}  // namespace paceline
