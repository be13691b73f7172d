#include "common/sync/work_share.h"

#include "common/assert.h"
#include "common/sync/test_hooks.h"

namespace paceline::sync {

WorkShare::WorkShare(Share kind, Cluster cluster, std::int64_t total_iterations)
    : kind_(kind), workers_(cluster.workers()), total_(total_iterations) {}

bool WorkShare::done(Rank worker, Clock clock) const {
  if (kind_ == Share::kPool) return next_ == total_ && returned_.empty();
  return clock.value * workers_ + worker.value >= total_;
}

std::int64_t WorkShare::take(Rank worker, Clock clock) {
  PACELINE_ASSERT(!done(worker, clock), "no iteration is left to take");
  if (kind_ == Share::kEven) return clock.value * workers_ + worker.value;
  if (returned_.empty()) return next_++;
  const std::int64_t iteration = *returned_.begin();
  returned_.erase(returned_.begin());
  return iteration;
}

void WorkShare::give_back(std::int64_t iteration) {
  if (kind_ == Share::kPool && !broken(Mutant::kLostIterationForgotten)) returned_.insert(iteration);
}

}  // namespace paceline::sync
