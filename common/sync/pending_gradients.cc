#include "common/sync/pending_gradients.h"

#include <algorithm>
#include <utility>

#include "common/assert.h"
#include "common/sync/lpr.h"
#include "common/sync/order.h"

namespace paceline::sync {

void PendingGradients::add(const Contributor& gradient, std::int64_t iteration, const Metric& metric) {
  OpenClock& clock = at(gradient.clock);
  clock.given.contributors.push_back(gradient);
  clock.given.metric += metric;
  clock.iterations.push_back(iteration);
}

void PendingGradients::add(const SkippedIteration& skipped, std::int64_t iteration) {
  OpenClock& clock = at(skipped.clock);
  clock.given.skipped.push_back(skipped);
  clock.iterations.push_back(iteration);
}

ClockContributions PendingGradients::take() {
  oldest_ = oldest_.next();
  if (by_clock_.empty()) return {};
  ClockContributions taken = std::move(by_clock_.front().given);
  by_clock_.pop_front();
  // Arrival order is a matter of timing; sums of floats depend on the order, so it must not be.
  put_into_worker_order(taken.contributors, [](const auto& c) { return c.worker; });
  put_into_worker_order(taken.skipped, [](const auto& s) { return s.worker; });
  return taken;
}

IterationRanges PendingGradients::iterations() const {
  IterationRanges held;
  for (const OpenClock& clock : by_clock_) {
    for (const std::int64_t iteration : clock.iterations) held.push_back({iteration, 1});
  }
  return held;
}

// Between two steps nobody is late for a clock that is open: these have done an iteration of it.
std::int64_t PendingGradients::skipped() const {
  std::int64_t count = 0;
  for (const OpenClock& clock : by_clock_) count += std::ssize(clock.given.skipped);
  return count;
}

PendingGradients::OpenClock& PendingGradients::at(Clock stamp) {
  PACELINE_ASSERT(stamp >= oldest_, "a gradient stamped " + to_string(stamp) + " comes after clock " +
                                        to_string(oldest_) + " closed");
  const std::size_t place = static_cast<std::size_t>(std::max<std::int64_t>((stamp - oldest_).value, 0));
  while (by_clock_.size() <= place) by_clock_.emplace_back();
  return by_clock_[place];
}

}  // namespace paceline::sync
