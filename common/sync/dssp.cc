#include "common/sync/dssp.h"

#include <cmath>

#include "common/assert.h"

namespace paceline::sync {

// Both sequences grow, so whoever is behind is moved on, and each push is looked at once. In nanoseconds
// since the fastest's last push; a double holds a hundred days of them exactly.
std::int64_t extra_iterations(const PushTimes& fastest, const PushTimes& slowest, std::int64_t most) {
  const auto fast_interval = static_cast<double>((fastest.last - fastest.before).count());
  const auto slow_interval = static_cast<double>((slowest.last - slowest.before).count());
  double fast = 0.0;
  double slow = static_cast<double>((slowest.last - fastest.last).count()) + slow_interval;
  std::int64_t best = 0;
  double least = std::fabs(fast - slow);
  if (least == 0.0) return 0;
  for (std::int64_t r = 0, k = 0; r <= most && k <= most;) {
    if (std::fabs(fast - slow) < least) {
      best = r;
      least = std::fabs(fast - slow);
      if (least == 0.0) break;  // none comes nearer
    }
    if (fast < slow) {
      fast += fast_interval;
      ++r;
    } else {
      slow += slow_interval;
      ++k;
    }
  }
  return best;
}

Threshold Dssp::threshold_for(Rank worker, Clock clock) const {
  const Worker& w = workers_[worker.value];
  return Threshold(clock <= w.extra_until ? w.raised : low_);
}

void Dssp::on_clock(Rank worker, Clock clock, Ticks now, const ClockTable& clocks) {
  if (workers_.size() <= worker.value) workers_.resize(worker.value + std::size_t{1});
  Worker& w = workers_[worker.value];
  w.paced = w.live;
  if (!w.live) w.extra_until = Clock(-1);  // granted before it departed
  w.live = true;
  w.clock = clock;
  w.pushes = {w.pushes.last, now};

  const Clock min_clock = clocks.min_clock();
  if (arrivals_.empty()) base_ = min_clock.value;
  for (; base_ < min_clock.value; ++base_) arrivals_.pop_front();
  while (arrivals_.size() <= static_cast<std::size_t>(clock.value - base_)) arrivals_.emplace_back();
  arrivals_[static_cast<std::size_t>(clock.value - base_)].push_back(worker);

  const std::int64_t lead = (clock - min_clock).value;
  const bool has_extra = clock <= w.extra_until;
  if (!w.paced || has_extra || lead <= low_) return;
  if (clock != clocks.max_clock()) return;
  const Worker& slow = slowest(min_clock);
  if (!slow.paced) return;
  const std::int64_t extra = extra_iterations(w.pushes, slow.pushes, high_ - lead + 1);
  w.extra_until = Clock(clock.value + extra - 1);
  w.raised = lead + extra - 1;
}

void Dssp::on_departure(Rank worker) {
  if (worker.value < workers_.size()) workers_[worker.value].live = false;
}

std::size_t Dssp::state_size() const {
  std::size_t size = arrivals_.size();
  for (const std::vector<Rank>& came : arrivals_) size += came.size();
  return size;
}

Dssp::Worker& Dssp::slowest(Clock min_clock) {
  std::vector<Rank>& came = arrivals_[static_cast<std::size_t>(min_clock.value - base_)];
  for (;; came.pop_back()) {
    PACELINE_ASSERT(!came.empty(), "nobody stands at the min clock " + to_string(min_clock));
    Worker& last = workers_[came.back().value];
    if (last.live && last.clock == min_clock) return last;
  }
}

}  // namespace paceline::sync
