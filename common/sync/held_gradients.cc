#include "common/sync/held_gradients.h"

#include <algorithm>
#include <utility>

#include "common/assert.h"
#include "common/sync/order.h"
#include "common/sync/test_hooks.h"

namespace paceline::sync {

ClockContributions HeldGradients::take() {
  oldest_ = oldest_.next();
  if (by_clock_.empty()) return {};
  ClockContributions taken = std::move(by_clock_.front());
  by_clock_.pop_front();
  // Arrival order is a matter of timing; sums of floats depend on the order, so it must not be.
  if (!broken(Mutant::kArrivalOrder))
    put_into_worker_order(taken.contributors, [](const auto& c) { return c.worker; });
  put_into_worker_order(taken.skipped, [](const auto& s) { return s.worker; });
  return taken;
}

ClockContributions& HeldGradients::at(Clock stamp) {
  PACELINE_ASSERT(
      stamp >= oldest_ || broken(Mutant::kVersionBeforeAllArrived),
      "a gradient stamped " + to_string(stamp) + " comes after clock " + to_string(oldest_) + " closed");
  const std::size_t place = static_cast<std::size_t>(std::max<std::int64_t>((stamp - oldest_).value, 0));
  while (by_clock_.size() <= place) by_clock_.emplace_back();
  return by_clock_[place];
}

}  // namespace paceline::sync
