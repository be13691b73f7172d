#include "common/sync/work_share.h"

#include <algorithm>

#include "common/assert.h"

namespace paceline::sync {

WorkShare::WorkShare(Share kind, Membership membership, Cluster cluster, std::int64_t per_clock,
                     std::int64_t total_iterations)
    : kind_(kind), workers_(cluster.workers()), per_clock_(per_clock), total_(total_iterations) {
  if (kind == Share::kEven && membership == Membership::kComeAndGo) {
    even_.emplace(cluster.workers(), total_iterations);
  }
}

void WorkShare::resume(const IterationRanges& left, Clock begin) {
  if (even_) even_.emplace(static_cast<std::uint32_t>(workers_), left, begin);
  if (kind_ == Share::kEven) return;
  next_ = total_;
  for (const IterationRange& range : left) {
    if (range.first + range.count == total_) {
      next_ = range.first;
    } else {
      for (std::int64_t i = 0; i < range.count; ++i) returned_.insert(range.first + i);
    }
  }
}

void WorkShare::join(Rank worker) {
  if (even_) even_->join(worker);
}

void WorkShare::leave(Rank worker) {
  if (even_) even_->leave(worker);
}

void WorkShare::lose(Rank worker, Clock clock, std::optional<std::int64_t> begun,
                     std::optional<std::int64_t> ahead) {
  if (even_) return even_->lose(worker, clock, begun, ahead);
  if (begun) give_back(*begun);
  if (ahead) give_back(*ahead);
}

void WorkShare::forget_below(Clock clock) {
  if (even_) even_->forget_below(clock);
}

std::int64_t WorkShare::due(Clock clock, std::int64_t used_up) const {
  if (kind_ == Share::kPool) return std::min(per_clock_, total_ - used_up);
  return std::min(per_clock_, total_ - clock.value * per_clock_);
}

bool WorkShare::done(Rank worker, Clock clock) {
  if (even_) return even_->done(worker, clock);
  if (kind_ == Share::kPool) return next_ == total_ && returned_.empty();
  const std::int64_t left = total_ - clock.value * per_clock_;
  return left <= 0 || worker.value >= left + (workers_ - per_clock_);
}

std::int64_t WorkShare::take(Rank worker, Clock clock) {
  if (even_) return even_->take(worker, clock);
  PACELINE_ASSERT(!done(worker, clock), "no iteration is left to take");
  if (kind_ == Share::kEven) return clock.value * workers_ + worker.value;
  if (returned_.empty()) return next_++;
  const std::int64_t iteration = *returned_.begin();
  returned_.erase(returned_.begin());
  return iteration;
}

void WorkShare::add_not_given(IterationRanges& left) const {
  if (even_) return even_->add_not_given(left);
  for (const std::int64_t iteration : returned_) left.push_back({iteration, 1});
  left.push_back({next_, total_ - next_});
}

void WorkShare::add_given(Rank worker, Clock from, IterationRanges& left) const {
  if (even_) even_->add_given(worker, from, left);
}

void WorkShare::give_back(std::int64_t iteration) {
  if (kind_ == Share::kPool) returned_.insert(iteration);
}

}  // namespace paceline::sync
