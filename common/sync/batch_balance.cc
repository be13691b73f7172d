#include "common/sync/batch_balance.h"

#include <algorithm>
#include <numeric>
#include <queue>
#include <string>
#include <utility>

#include "common/assert.h"

namespace paceline::sync {

// Everybody gets its proportional part, rounded down, and what is left goes
// step by step to whoever is done first with one step more. That is what
// handing out all of it step by step comes to (D'Hondt's method: no one gets
// less than its part rounded down), but for those whose part is less than one
// step.
BatchSizes balanced_sizes(const std::vector<double>& seconds_each, std::int64_t total, std::int64_t step) {
  const auto workers = std::ssize(seconds_each);
  const std::int64_t steps = total / step;
  PACELINE_ASSERT(total % step == 0 && steps >= workers && workers > 0,
                  std::to_string(total) + " samples for " + std::to_string(workers) + " workers");
  double speed = 0.0;
  for (const double seconds : seconds_each) speed += 1.0 / seconds;
  std::vector<std::int64_t> given(seconds_each.size());
  for (std::size_t r = 0; r < given.size(); ++r) {
    const double part = static_cast<double>(steps) / (seconds_each[r] * speed);
    given[r] = std::max<std::int64_t>(1, static_cast<std::int64_t>(part));
  }
  std::int64_t left = steps - std::accumulate(given.begin(), given.end(), std::int64_t{0});
  using Next = std::pair<double, std::size_t>;  // done when, with one step more
                                                // or as it is; rank
  if (left < 0) {
    std::priority_queue<Next> slowest;
    for (std::size_t r = 0; r < given.size(); ++r) {
      if (given[r] > 1) slowest.emplace(static_cast<double>(given[r]) * seconds_each[r], r);
    }
    for (; left < 0; ++left) {
      const std::size_t r = slowest.top().second;
      slowest.pop();
      if (--given[r] > 1) slowest.emplace(static_cast<double>(given[r]) * seconds_each[r], r);
    }
  }
  if (left > 0) {
    std::priority_queue<Next, std::vector<Next>, std::greater<>> soonest;
    for (std::size_t r = 0; r < given.size(); ++r) {
      soonest.emplace(static_cast<double>(given[r] + 1) * seconds_each[r], r);
    }
    for (; left > 0; --left) {
      const std::size_t r = soonest.top().second;
      soonest.pop();
      ++given[r];
      soonest.emplace(static_cast<double>(given[r] + 1) * seconds_each[r], r);
    }
  }
  for (std::int64_t& size : given) size *= step;
  return given;
}

BatchBalance::BatchBalance(Cluster cluster, std::int64_t batch_size, std::int64_t step)
    : cluster_(cluster),
      step_(step),
      paces_(cluster.nodes),
      lost_(cluster.workers()),
      sizes_(cluster.workers(), batch_size) {
  PACELINE_ASSERT(batch_size > 0 && batch_size % step == 0, "mini-batches of " + std::to_string(batch_size));
}

void BatchBalance::observe(Rank worker, std::int64_t samples, std::chrono::nanoseconds length, Seen seen) {
  PACELINE_ASSERT(!lost(worker),
                  "rank " + std::to_string(worker.value) + " is lost and completes an iteration");
  Pace& pace = paces_[cluster_.worker_at(worker).node.value];
  const std::int64_t memory = kMemoryClocks * cluster_.threads_per_node;
  // Of no length at all there is no speed; a nanosecond is as good.
  const double seconds =
      std::max<double>(1.0, static_cast<double>(length.count())) * 1e-9 / static_cast<double>(samples);
  pace.observe(seconds, seen, memory);
}

void BatchBalance::Pace::Mean::add(double seconds_each, std::int64_t memory) {
  observed = std::min(observed + 1, memory);
  seconds += (seconds_each - seconds) / static_cast<double>(observed);
}

void BatchBalance::Pace::observe(double seconds_each, Seen seen, std::int64_t memory) {
  if (seen == Seen::kAlone) alone_.add(seconds_each, memory);
  all_.add(seconds_each, memory);
}

double BatchBalance::Pace::seconds_each() const {
  return alone_.observed > 0 ? std::min(alone_.seconds, all_.seconds) : all_.seconds;
}

bool BatchBalance::review() {
  std::vector<std::uint32_t> present;  // ranks
  std::vector<double> seconds_each;    // theirs
  std::int64_t total = 0;
  double longest = 0.0;
  for (std::uint32_t r = 0; r < sizes_.size(); ++r) {
    if (lost_[r]) continue;
    const Pace& pace = paces_[cluster_.worker_at(Rank(r)).node.value];
    if (!pace.is_seen()) return false;  // somebody has not completed anything
    present.push_back(r);
    seconds_each.push_back(pace.seconds_each());
    total += sizes_[r];
    longest = std::max(longest, static_cast<double>(sizes_[r]) * seconds_each.back());
  }
  if (present.empty()) return false;
  const BatchSizes better = balanced_sizes(seconds_each, total, step_);
  double then = 0.0;
  for (std::size_t i = 0; i < better.size(); ++i) {
    then = std::max(then, static_cast<double>(better[i]) * seconds_each[i]);
  }
  if (longest <= then * (1.0 + kGain)) return false;
  for (std::size_t i = 0; i < better.size(); ++i) sizes_[present[i]] = better[i];
  return true;
}

}  // namespace paceline::sync
